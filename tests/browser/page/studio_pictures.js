// Pictures of clothes as files, which the browser itself encodes.

/** The first test images as PNG files. */
export async function greyPictures(count) {
  const response = await fetch('/demos/data/test-images-idx3-ubyte');
  const bytes = new Uint8Array(await response.arrayBuffer()).subarray(16);
  const canvas = document.createElement('canvas');
  canvas.width = 28;
  canvas.height = 28;
  const context = canvas.getContext('2d');
  const files = [];
  for (let index = 0; index < count; index++) {
    const image = context.createImageData(28, 28);
    bytes.subarray(index * 784, (index + 1) * 784).forEach((grey, pixel) => {
      image.data.set([grey, grey, grey, 255], 4 * pixel);
    });
    context.putImageData(image, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
    files.push(new File([blob], `picture ${index}.png`, { type: 'image/png' }));
  }
  return files;
}

/** The first pictures of a file of raw pixels, red, green and blue, as PNG files. */
export async function colourPictures(address, side, count) {
  const bytes = new Uint8Array(await (await fetch(address)).arrayBuffer());
  const canvas = document.createElement('canvas');
  canvas.width = side;
  canvas.height = side;
  const context = canvas.getContext('2d');
  const size = side * side * 3;
  const files = [];
  for (let index = 0; index < count; index++) {
    const image = context.createImageData(side, side);
    const pixels = bytes.subarray(index * size, (index + 1) * size);
    for (let pixel = 0; pixel < side * side; pixel++) {
      image.data.set([...pixels.subarray(3 * pixel, 3 * pixel + 3), 255], 4 * pixel);
    }
    context.putImageData(image, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
    files.push(
      new File([blob], `photo ${String(index).padStart(2, '0')}.png`, { type: 'image/png' }),
    );
  }
  return files;
}

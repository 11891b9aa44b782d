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

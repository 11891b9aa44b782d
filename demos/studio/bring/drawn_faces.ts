// Draws faces: pictures for a detector that belong to nobody.

import { type Image, fromRgba } from 'requant/dataset';

const SIDE = 256;

/** A generator of numbers in [0, 1), the same everywhere (Lehmer's generator, Park and Miller 1988). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

type Context = OffscreenCanvasRenderingContext2D;
type Random = () => number;

function ellipse(context: Context, x: number, y: number, w: number, h: number): void {
  context.beginPath();
  context.ellipse(x, y, w, h, 0, 0, 2 * Math.PI);
  context.fill();
}

/** A face whose middle is 0, 0 and whose height is 2. */
function drawFace(context: Context, random: Random): void {
  const between = (least: number, most: number) => least + (most - least) * random();
  const tone = between(28, 78);
  const hue = between(18, 32);
  const skin = (light: number) => `hsl(${hue} 42% ${tone + light}%)`;
  const hair = `hsl(${between(15, 45)} ${between(10, 60)}% ${between(8, 45)}%)`;
  context.fillStyle = hair;
  ellipse(context, 0, -0.18, 0.86, 1.0);
  context.fillStyle = skin(-9);
  context.fillRect(-0.3, 0.6, 0.6, 0.75);
  const shade = context.createRadialGradient(-0.15, -0.2, 0.1, 0, 0, 1.1);
  shade.addColorStop(0, skin(9));
  shade.addColorStop(0.65, skin(0));
  shade.addColorStop(1, skin(-16));
  context.fillStyle = shade;
  ellipse(context, 0, 0.08, 0.7, 0.92);
  for (const side of [-1, 1]) {
    context.fillStyle = skin(-14);
    ellipse(context, side * 0.28, -0.1, 0.17, 0.11);
    context.fillStyle = 'hsl(40 20% 94%)';
    ellipse(context, side * 0.28, -0.08, 0.14, 0.075);
    context.fillStyle = `hsl(${between(10, 220)} 45% 28%)`;
    ellipse(context, side * 0.28, -0.08, 0.068, 0.07);
    context.fillStyle = '#111';
    ellipse(context, side * 0.28, -0.08, 0.035, 0.037);
    context.strokeStyle = hair;
    context.lineWidth = 0.06;
    context.beginPath();
    context.arc(side * 0.28, -0.02, 0.26, -Math.PI * 0.75, -Math.PI * 0.25);
    context.stroke();
    context.fillStyle = skin(-10);
    ellipse(context, side * 0.71, 0.02, 0.08, 0.17);
  }
  context.fillStyle = skin(-13);
  context.beginPath();
  context.moveTo(-0.03, -0.08);
  context.quadraticCurveTo(0.02, 0.12, -0.15, 0.26);
  context.quadraticCurveTo(0, 0.34, 0.15, 0.26);
  context.quadraticCurveTo(0.07, 0.12, 0.05, -0.08);
  context.fill();
  const smile = between(0.02, 0.14);
  context.fillStyle = `hsl(${between(345, 365)} 45% ${Math.min(50, tone)}%)`;
  context.beginPath();
  context.moveTo(-0.27, 0.5 - smile / 2);
  context.quadraticCurveTo(0, 0.44, 0.27, 0.5 - smile / 2);
  context.quadraticCurveTo(0, 0.62 + smile, -0.27, 0.5 - smile / 2);
  context.fill();
  context.fillStyle = hair;
  context.beginPath();
  context.moveTo(-0.74, -0.2);
  context.quadraticCurveTo(-0.7, -1.1, 0, -1.05);
  context.quadraticCurveTo(0.7, -1.1, 0.74, -0.2);
  context.quadraticCurveTo(0.5, -0.68, between(-0.4, 0.4), -0.6);
  context.quadraticCurveTo(-0.5, -0.62, -0.74, -0.2);
  context.fill();
}

/** A picture with one face, sometimes two. The same index gives the same picture. */
export function drawnFaces(index: number): Image {
  const random = generator(1000 + 7919 * index);
  for (let at = 0; at < 5; at++) random();
  const context = new OffscreenCanvas(SIDE, SIDE).getContext('2d')!;
  const ground = context.createLinearGradient(0, 0, SIDE * random(), SIDE);
  const hue = 360 * random();
  ground.addColorStop(0, `hsl(${hue} 30% ${35 + 45 * random()}%)`);
  ground.addColorStop(1, `hsl(${hue + 40} 30% ${20 + 40 * random()}%)`);
  context.fillStyle = ground;
  context.fillRect(0, 0, SIDE, SIDE);
  const faces = index % 4 === 3 ? 2 : 1;
  for (let face = 0; face < faces; face++) {
    const size = SIDE * (faces === 2 ? 0.17 + 0.06 * random() : 0.2 + 0.16 * random());
    const left = faces === 2 ? SIDE * (face === 0 ? 0.27 : 0.73) : SIDE * (0.35 + 0.3 * random());
    const top = SIDE * (0.4 + 0.15 * random());
    context.save();
    context.translate(left, top);
    context.rotate((random() - 0.5) * 0.35);
    context.scale(size, size);
    context.fillStyle = `hsl(${360 * random()} 40% 40%)`;
    ellipse(context, 0, 2.1, 1.25, 1.0);
    drawFace(context, random);
    context.restore();
  }
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  return fromRgba(data, SIDE, SIDE, 3);
}

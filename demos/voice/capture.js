// The AudioWorklet: brings the microphone's sound to 16,000 samples a second, and sends 80 ms at a time to the Worker
// with the networks. An AudioWorklet must never wait, so the networks do not run in it.

/* global AudioWorkletProcessor, registerProcessor, sampleRate */

const RATE = 16_000;
const PIECE = 1280;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    // The page sends the port of the Worker.
    this.port.onmessage = ({ data }) => (this.worker = data);
    this.piece = new Float32Array(PIECE);
    this.filled = 0;
    // The samples that the next one of 16,000 a second is the mean of.
    this.sum = 0;
    this.count = 0;
    this.time = 0;
  }

  process([[samples]]) {
    if (!samples) return true;
    for (const sample of samples) {
      this.sum += sample;
      this.count++;
      this.time += RATE / sampleRate;
      if (this.time < 1) continue;
      this.time -= 1;
      this.piece[this.filled++] = this.sum / this.count;
      this.sum = this.count = 0;
      if (this.filled < PIECE) continue;
      this.worker?.postMessage(this.piece, [this.piece.buffer]);
      this.piece = new Float32Array(PIECE);
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor('capture', Capture);

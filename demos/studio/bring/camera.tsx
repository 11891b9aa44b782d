// Takes pictures with the camera.

import { useEffect, useRef, useState } from 'preact/hooks';
import { takeFiles } from './take_files.js';

/** Enough for a beginning. */
const ENOUGH = 10;

function pictureOf(video: HTMLVideoElement, number: number): Promise<File> {
  const canvas = document.createElement('canvas');
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext('2d')!.drawImage(video, 0, 0);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => {
      const name = `camera ${String(number).padStart(2, '0')}.png`;
      if (blob) resolve(new File([blob], name, { type: 'image/png' }));
      else reject(new Error('the picture is empty'));
    }, 'image/png');
  });
}

/** The camera's picture, and a button that keeps it. */
export function Camera({ onEnd }: { onEnd(): void }) {
  const video = useRef<HTMLVideoElement>(null);
  const [pictures, setPictures] = useState<readonly File[]>([]);
  const [failed, setFailed] = useState('');
  const [ready, setReady] = useState(false);
  useEffect(() => {
    let stream: MediaStream | undefined;
    let current = true;
    const stop = () => stream?.getTracks().forEach((track) => track.stop());
    const start = async () => {
      stream = await navigator.mediaDevices.getUserMedia({
        video: { width: { ideal: 640 }, height: { ideal: 480 } },
      });
      if (!current || !video.current) {
        stop();
        return;
      }
      video.current.srcObject = stream;
      await video.current.play();
      setReady(true);
    };
    start().catch((error: Error) => {
      if (current) setFailed(`The camera cannot be used: ${error.message}`);
    });
    return () => {
      current = false;
      stop();
    };
  }, []);
  const take = () => {
    if (!ready) return;
    pictureOf(video.current!, pictures.length + 1).then(
      (made) => setPictures((before) => [...before, made]),
      (error: Error) => setFailed(error.message),
    );
  };
  const use = () => {
    if (pictures.length === 0) return;
    onEnd();
    void takeFiles(() => pictures.map((file) => ({ path: file.name, file })));
  };
  return (
    <div class="stack">
      {failed ? (
        <p class="bad" role="alert">
          {failed}
        </p>
      ) : (
        <div role="img" aria-label="Picture of the camera">
          <video ref={video} class="camera" muted playsInline aria-hidden="true" />
        </div>
      )}
      <p role="status" class="muted small">
        {pictures.length === 0
          ? `Take ${ENOUGH} or more, of what the network usually sees.`
          : `${pictures.length} ${pictures.length === 1 ? 'picture' : 'pictures'} taken.`}
      </p>
      <div class="buttons">
        <button type="button" class="button" aria-disabled={!ready} onClick={take}>
          Take a picture
        </button>
        <button
          type="button"
          class="button primary"
          aria-disabled={pictures.length === 0}
          onClick={use}
        >
          Use them
        </button>
        <button type="button" class="button" onClick={onEnd}>
          Close the camera
        </button>
      </div>
    </div>
  );
}

// The part of transformers.js that the page uses; the browser loads it from a CDN by the page's import map.

declare module '@huggingface/transformers' {
  export function pipeline(
    task: 'text-classification',
    model: string,
    options: {
      device: 'auto';
      dtype: 'q8';
      progress_callback?: (news: { status: string; file?: string; progress?: number }) => void;
    },
  ): Promise<
    (text: string, options: { top_k: number }) => Promise<{ label: string; score: number }[]>
  >;
}

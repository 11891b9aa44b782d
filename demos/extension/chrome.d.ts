// The part of the extension API that the demo uses (developer.chrome.com/docs/extensions/reference/api).

declare const chrome: {
  runtime: {
    onMessage: {
      addListener(
        listener: (
          message: import('./background.js').Question,
          sender: unknown,
          reply: (answer: import('./background.js').Answer[]) => void,
        ) => boolean,
      ): void;
    };
    sendMessage(
      message: import('./background.js').Question,
    ): Promise<import('./background.js').Answer[]>;
  };
  scripting: {
    executeScript<T>(injection: {
      target: { tabId: number };
      func: () => T;
    }): Promise<{ result?: T }[]>;
  };
  tabs: { query(what: { active: boolean; currentWindow: boolean }): Promise<{ id?: number }[]> };
};

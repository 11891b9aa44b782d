// Files that Vite turns into addresses.

declare module '*?url' {
  const address: string;
  export default address;
}

// Settings of env.wasm, where a row needs any: most need none.

// The default export of the package: the names that programs written for onnxruntime-web use.

import { Tensor } from './base/tensor.js';
import { InferenceSession } from './session/session.js';
import { env } from './worker/proxied.js';

/** What `import ort from 'onnxruntime-web'` is used for. */
const ort = Object.freeze({ InferenceSession, Tensor, env });

// eslint-disable-next-line no-restricted-syntax -- such programs import it so
export default ort;

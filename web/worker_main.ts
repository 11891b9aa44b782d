// The script that the worker of createWorker() starts with.

import { serve } from './worker/serve.js';

void serve();

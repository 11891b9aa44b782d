// The script that a thread of the engine starts with.

import { startKernelThread } from './engine/kernel_thread.js';

void startKernelThread();

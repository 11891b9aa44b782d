// The studio: a page that makes a network smaller and faster, and shows what that costs.

import { render } from 'preact';
import { keepForOffline } from './offline/register.js';
import { Shell } from './shell.js';
import { followLink } from './state/link.js';
import { applyTheme } from './state/theme.js';

applyTheme();
followLink();
render(<Shell />, document.getElementById('app')!);
keepForOffline();

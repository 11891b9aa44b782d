/**
 * The result of `compare` for people and machines: text, an HTML page, charts. Pure functions, for
 * browsers and Node.
 *
 * @packageDocumentation
 */

export {
  type AnalysisHtmlOptions,
  analysisHtml,
  formatAnalysis,
  frontierChart,
  histogramChart,
} from './analysis.js';
export { formatBytes, formatDb, formatMs, formatNumber, formatShare, table } from './format.js';
export { type HtmlOptions, htmlReport } from './html.js';
export { type MetricRow, metricRows, outputRows, worstLayers } from './metrics.js';
export {
  type LayerChartOptions,
  type Pair,
  chartStyle,
  escapeHtml,
  layerChart,
  pairChart,
} from './svg.js';
export { type TextOptions, formatReport } from './text.js';
export { formatVerification } from './verification.js';

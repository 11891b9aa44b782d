/**
 * Presents the result of `compare` to people and machines: text, an HTML page, charts. Pure functions, for
 * browsers and Node.
 *
 * @packageDocumentation
 */

export {
  type AnalysisHtmlOptions,
  type AnalysisTextOptions,
  analysisHtml,
  formatAnalysis,
} from './analysis.js';
export { type FrontierCost, frontierChart, histogramChart } from './analysis_charts.js';
export { type Pair, layerChart, pairChart } from './bars.js';
export { chartStyle, escapeHtml } from './chart.js';
export { formatBytes, formatDb, formatMs, formatNumber, formatShare, table } from './format.js';
export { type HtmlOptions, htmlReport } from './html.js';
export { type MetricRow, metricRows, outputRows, worstLayers } from './metrics.js';
export { type SearchHtmlOptions, formatSearch, searchHtml } from './search.js';
export { searchChart } from './search_chart.js';
export { type TextOptions, formatReport } from './text.js';
export { formatVerification } from './verification.js';

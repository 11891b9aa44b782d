// Where the error comes from: a chart over all layers, and a table of the worst.

import type { CompareReport, LayerDifference } from 'requant';
import { formatDb } from 'requant/report';
import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { showNode } from '../state/store.js';
import { colourOf, theme } from '../state/theme.js';
import { loadPlot } from './plot.js';

const FIRST = 8;
const HEIGHT = 260;

const finite = (value: number | null | undefined) =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;

function optionsOf(layers: readonly LayerDifference[], width: number): uPlot.Options {
  const [ink, line, accent, warm] = ['--muted', '--line', '--accent', '--warm'].map(colourOf);
  const axis = { stroke: ink!, grid: { stroke: line!, width: 1 }, ticks: { stroke: line! } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    scales: { x: { time: false } },
    cursor: { points: { size: 8 }, drag: { x: false, y: false } },
    axes: [
      {
        ...axis,
        label: 'Layer',
        labelSize: 24,
        values: (_, marks) => marks.map((at) => (Number.isInteger(at) ? String(at + 1) : '')),
      },
      { ...axis, label: 'dB', labelSize: 20, size: 44 },
    ],
    series: [
      {},
      {
        label: 'Everything quantized',
        stroke: accent!,
        width: 2,
        points: { show: layers.length < 80, size: 6, fill: accent! },
      },
      {
        label: 'This layer alone',
        stroke: warm!,
        width: 0,
        points: { show: true, size: 6, stroke: warm! },
        paths: () => null,
      },
    ],
  };
}

function Chart({ layers }: { layers: readonly LayerDifference[] }) {
  const place = useRef<HTMLDivElement>(null);
  const [under, setUnder] = useState<number | undefined>(undefined);
  const [failed, setFailed] = useState(false);
  const colours = theme.value;
  useEffect(() => {
    const element = place.current!;
    const data: uPlot.AlignedData = [
      layers.map((_, index) => index),
      layers.map(({ snr }) => finite(snr)),
      layers.map(({ aloneSnr }) => finite(aloneSnr)),
    ];
    let stop = () => {};
    let current = true;
    loadPlot().then(
      (Plot) => {
        if (!current) return;
        const hooks = {
          setCursor: [({ cursor }: uPlot) => setUnder(cursor.idx ?? undefined)],
        };
        const options = { ...optionsOf(layers, element.clientWidth), hooks };
        const plot = new Plot(options, data, element);
        // The element around it has the name.
        plot.ctx.canvas.setAttribute('aria-hidden', 'true');
        plot.over.addEventListener('click', () => {
          const layer = layers[plot.cursor.idx ?? -1];
          if (layer) showNode(layer.name);
        });
        const observer = new ResizeObserver(() => {
          plot.setSize({ width: element.clientWidth, height: HEIGHT });
        });
        observer.observe(element);
        stop = () => {
          observer.disconnect();
          plot.destroy();
        };
      },
      () => setFailed(true),
    );
    return () => {
      current = false;
      stop();
    };
  }, [layers, colours]);
  const layer = under === undefined ? undefined : layers[under];
  if (failed)
    return <p class="muted">This browser cannot draw the chart; the table has its numbers.</p>;
  return (
    <div>
      <div
        ref={place}
        class="chart"
        role="img"
        aria-label={`Signal to noise ratio of ${layers.length} layers; the table below has the worst`}
      />
      <p class="small muted">
        {layer
          ? `${layer.name}: ${formatDb(layer.snr)}, alone ${formatDb(layer.aloneSnr)}`
          : 'Line: everything is quantized. Circles: only this layer is. A click leads to the layer in the graph.'}
      </p>
    </div>
  );
}

export function Layers({ report }: { report: CompareReport }) {
  const [all, setAll] = useState(false);
  const noise = ({ snr }: LayerDifference) => snr ?? Infinity;
  const sorted = [...report.layers].sort((a, b) => noise(a) - noise(b));
  const shown = all ? sorted : sorted.slice(0, FIRST);
  return (
    <section class="card" aria-labelledby="layers-title">
      <h2 id="layers-title">Where the error comes from</h2>
      <p class="hint">
        The signal above the error, in decibels, layer by layer; higher is better. Give a layer that
        falls more bits, or keep it in float.
      </p>
      <Chart layers={report.layers} />
      <div class="scroll" role="region" aria-label="Table of layers" tabIndex={0}>
        <table class="numbers">
          <caption class="hidden-text">Layers, the worst first</caption>
          <thead>
            <tr>
              <th scope="col">Layer</th>
              <th scope="col" class="optional">
                Operator
              </th>
              <th scope="col">All quantized</th>
              <th scope="col">Alone</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((layer) => (
              <tr key={layer.value}>
                <th scope="row">
                  <button type="button" class="layer-link" onClick={() => showNode(layer.name)}>
                    {layer.name}
                  </button>
                </th>
                <td class="optional">{layer.op}</td>
                <td>{formatDb(layer.snr)}</td>
                <td>{formatDb(layer.aloneSnr)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!all && sorted.length > FIRST && (
        <div class="buttons">
          <button type="button" class="button" onClick={() => setAll(true)}>
            Show all {sorted.length} layers
          </button>
        </div>
      )}
    </section>
  );
}

// The room of the graph.

import { signal } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { model, result, selected } from '../state/store.js';
import { theme } from '../state/theme.js';
import { describe } from '../watch/problems.js';
import { layOut } from './layout.js';
import { measuresOf } from './measures.js';
import { networkOf } from './network.js';
import { NodePanel } from './node_panel.js';
import { type Mode, modes, painterOf } from './paint.js';
import { Scene } from './scene.js';
import { Search } from './search.js';
import { Stage } from './stage.js';

const mode = signal<Mode>('kind');
const form = signal<'nodes' | 'written'>('nodes');

/** The last layout, which stays while the user visits other rooms. */
let last: { nodes: unknown; scene: Scene } | undefined;

function useScene(): { scene: Scene | undefined; failed: string } {
  const { info, nodes, written } = model.value!;
  const list = form.value === 'nodes' ? nodes : written;
  const [scene, setScene] = useState(last?.nodes === list ? last.scene : undefined);
  const [failed, setFailed] = useState('');
  useEffect(() => {
    if (last?.nodes === list) {
      setScene(last.scene);
      return;
    }
    let current = true;
    setScene(undefined);
    const network = networkOf(info, list);
    layOut(network).then(
      (layout) => {
        if (!current) return;
        last = { nodes: list, scene: new Scene(network, layout) };
        setScene(last.scene);
      },
      (error: unknown) => current && setFailed(describe(error).text),
    );
    return () => {
      current = false;
    };
  }, [list]);
  return { scene, failed };
}

function Graph() {
  const { scene, failed } = useScene();
  const { nodes, written, name } = model.value!;
  const list = form.value === 'nodes' ? nodes : written;
  const now = result.value;
  const colours = theme.value;
  const measures = useMemo(measuresOf, [now]);
  const painter = useMemo(
    () => scene && painterOf(mode.value, scene.network.boxes, measures),
    [scene, measures, mode.value, colours],
  );
  const node = list.find((one) => one.name === selected.value);
  return (
    <div class="graph">
      <h1 id="see-title" class="hidden-text" tabIndex={-1}>
        Graph of {name}
      </h1>
      <div class="graph-stage">
        {scene && painter ? (
          <Stage
            scene={scene}
            paint={painter.paint}
            legend={painter.legend}
            measures={measures}
            title={`Graph of ${name}, ${list.length} operators`}
          />
        ) : (
          <p class="graph-note">{failed || `Laying out ${list.length} operators …`}</p>
        )}
        <div class="graph-bar">
          <Search nodes={list} />
          <select
            aria-label="Colour operators by"
            value={mode.value}
            onChange={({ currentTarget }) => (mode.value = currentTarget.value as Mode)}
          >
            {modes
              .filter(({ needsResult }) => now || !needsResult)
              .map(({ id, name: text }) => (
                <option key={id} value={id}>
                  {text}
                </option>
              ))}
          </select>
          <select
            aria-label="Form of the graph"
            value={form.value}
            onChange={({ currentTarget }) => (form.value = currentTarget.value as 'nodes')}
          >
            <option value="nodes">Optimized</option>
            <option value="written">As in the file</option>
          </select>
        </div>
      </div>
      {node && <NodePanel node={node} measures={measures} />}
    </div>
  );
}

export function See() {
  return model.value ? <Graph /> : null;
}

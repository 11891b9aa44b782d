// Buttons that go from sample to sample.

export function Pager(props: {
  index: number;
  count: number;
  name: string;
  onChange(index: number): void;
}) {
  const { index, count, name, onChange } = props;
  const step = (by: number) => onChange((index + by + count) % count);
  return (
    <div class="pager">
      <button type="button" class="button small" onClick={() => step(-1)}>
        Previous
      </button>
      <span class="muted small">{name}</span>
      <button type="button" class="button small" onClick={() => step(1)}>
        Next
      </button>
    </div>
  );
}

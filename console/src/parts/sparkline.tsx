/** A line of the last two minutes. Its box never changes size. */

const WIDTH = 64;
const HEIGHT = 18;
const POINTS = 60;

export function Sparkline({ values, top, label }: { values: number[]; top?: number; label: string }) {
  const highest = Math.max(top ?? 0, ...values, 1e-9);
  const step = WIDTH / (POINTS - 1);
  const points = values.map((value, index) => {
    const x = WIDTH - (values.length - 1 - index) * step;
    const y = HEIGHT - 1.5 - (value / highest) * (HEIGHT - 3);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  const first = points[0]?.split(",")[0];
  return (
    <svg class="sparkline" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <line x1={0} x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      {points.length > 1 && <polygon points={`${first},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />}
      {points.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}

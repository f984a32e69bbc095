/** The project's mark: a sealed vessel. */

export function Mark({ size = 22 }: { size?: number }) {
  return (
    <svg class="mark" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      <path class="mark-body" d="M12 1.8l8.8 5.1v10.2L12 22.2l-8.8-5.1V6.9z" />
      <path class="mark-line" d="M8.2 8v8M15.8 8v8M8.2 12h7.6" />
    </svg>
  );
}

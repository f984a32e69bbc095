/** The list of keys. */

import { APPROVAL_KEYS, SHORTCUTS, TERMINAL_KEYS } from "../keys";
import { Dialog } from "../parts/dialog";

const GROUPS: [string, [string, string][]][] = [["Page", SHORTCUTS], ["Terminal", TERMINAL_KEYS], ["Approvals", APPROVAL_KEYS]];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keyboard" close={close}>
      <div class="keys">
        {GROUPS.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([key, meaning]) => (
                <div key={key}>
                  <dt>{key.split(" ").filter(Boolean).map((each) => <kbd key={each}>{each}</kbd>)}</dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="buttons"><button type="button" class="primary" onClick={close}>Close</button></p>
    </Dialog>
  );
}

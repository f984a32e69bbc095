/** Styles that xterm.js makes at run time, in forms that the page's Content-Security-Policy allows. */

/** Stands in for a style element, whose text the policy would refuse: an adopted style sheet with the same text. */
class AdoptedStyle extends HTMLElement {
  readonly sheet = new CSSStyleSheet();

  connectedCallback(): void {
    this.hidden = true;
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, this.sheet];
  }

  disconnectedCallback(): void {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== this.sheet);
  }
}

Object.defineProperty(AdoptedStyle.prototype, "textContent", {
  set(this: AdoptedStyle, text: string) {
    this.sheet.replaceSync(text);
  },
});

/** From now on scripts' style elements are adopted sheets, and style attributes of spans are set as properties. */
export function adoptStyles(): void {
  if (customElements.get("adopted-style")) return;
  customElements.define("adopted-style", AdoptedStyle);
  const create = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
  const adopted = (name: string, options?: ElementCreationOptions) => (name === "style" ? new AdoptedStyle() : create(name, options));
  document.createElement = adopted as typeof document.createElement;
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string) {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

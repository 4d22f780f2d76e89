// What sphinx-book-theme 1.4.0 leaves unnamed for a screen reader.
document.querySelectorAll(".search-button-field[aria-label]").forEach((button) => button.removeAttribute("aria-label"));
document.querySelectorAll(".sidebar-primary-item:has(> .navbar-brand)").forEach((item) => {
  item.setAttribute("role", "navigation");
  item.setAttribute("aria-label", "Start page");
});
// A formula that is too wide scrolls, and keys reach it.
const reached = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const wide = target.scrollWidth > target.clientWidth;
    for (const [name, value] of Object.entries({ tabindex: 0, role: "group", "aria-label": "Formula, scrolls" }))
      if (wide) target.setAttribute(name, value);
      else target.removeAttribute(name);
  }
});
addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  document.querySelectorAll("mjx-container[display]").forEach((formula) => reached.observe(formula));
});

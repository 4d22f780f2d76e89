// What sphinx-book-theme 1.4.0 leaves unnamed for a screen reader.
document.querySelectorAll(".search-button-field[aria-label]").forEach((button) => button.removeAttribute("aria-label"));
document.querySelectorAll(".sidebar-primary-item:has(> .navbar-brand)").forEach((item) => {
  item.setAttribute("role", "navigation");
  item.setAttribute("aria-label", "Start page");
});

// Sphinx shows the text around a match as the page stores it, and a page stores TeX. Here it becomes words: epsilon, mu.
addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const plain = Search.htmlToText;
  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const article = page.querySelector("article"); // without the theme's buttons and its table of contents
    if (article) page.querySelector('[role="main"]')?.replaceChildren(article);
    page.querySelector(".work")?.remove(); // the buttons below a title
    for (const formula of page.querySelectorAll(".math"))
      formula.textContent = formula.textContent.replace(/\\[()[\],;!]|[\\{}&]/g, " ");
    return plain(page.documentElement.outerHTML, anchor);
  };
});

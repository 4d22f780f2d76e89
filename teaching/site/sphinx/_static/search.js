// Sphinx shows the text around a match as the page stores it, and a page stores TeX. Here it becomes words first.
addEventListener("DOMContentLoaded", () => {
  const SIGNS = {
    alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", varepsilon: "ε", eta: "η", theta: "θ", lambda: "λ",
    mu: "μ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", Delta: "Δ", Sigma: "Σ", sum: "Σ", partial: "∂",
    nabla: "∇", cdot: "·", times: "×", odot: "⊙", pm: "±", approx: "≈", neq: "≠", ne: "≠", leq: "≤", le: "≤", geq: "≥",
    ge: "≥", ll: "≪", gg: "≫", to: "→", rightarrow: "→", mapsto: "↦", in: "∈", infty: "∞", ell: "ℓ", top: "ᵀ",
    ldots: "…", dots: "…", cdots: "…", quad: " ", qquad: " ", lVert: "‖", rVert: "‖", Vert: "‖", propto: "∝",
  };
  const words = (tex) => {
    let text = tex.replace(/^\\[([]|\\[)\]]$/g, "").replace(/\\(begin|end)\{\w+\*?\}(\{\w+\})?/g, " ");
    for (let before = ""; before !== text; ) { // from the innermost braces to the outermost
      before = text;
      text = text
        .replace(/\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}/g, "($1)/($2)")
        .replace(/\\sqrt\s*\{([^{}]*)\}/g, "√($1)")
        .replace(/\\hat\s*\{?([A-Za-z])\}?/g, "$1\u0302")
        .replace(/\\bar\s*\{?([A-Za-z])\}?/g, "$1\u0304")
        .replace(/\\(?:text|mathrm|mathbf|boldsymbol|mathcal|operatorname|textbf)\s*\{([^{}]*)\}/g, "$1")
        .replace(/([_^])\{([^{}\\]*)\}/g, "$1$2");
    }
    return text
      .replace(/\\([A-Za-z]+)/g, (all, name) => SIGNS[name] ?? (/^(log|exp|max|min|tanh|cos|sin)$/.test(name) ? name : " "))
      .replace(/\\\\|\\[,;:! ]|[{}&]/g, " ")
      .replace(/\\([|%#_])/g, "$1")
      .replace(/\s+/g, " ")
      .trim();
  };
  window.wordsOfTex = words; // for the tests
  if (typeof Search === "undefined") return;
  const plain = Search.htmlToText;
  Search.htmlToText = (text, anchor) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const article = page.querySelector("article"); // without the theme's buttons and its table of contents
    if (article) page.querySelector('[role="main"]')?.replaceChildren(article);
    page.querySelector(".work")?.remove(); // the buttons below a title
    for (const formula of page.querySelectorAll(".math")) formula.textContent = words(formula.textContent.trim());
    return plain(page.documentElement.outerHTML, anchor);
  };
});

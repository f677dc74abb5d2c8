// Draws every figure in the colours of the page, and again when the reader's scheme changes or the page is printed.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const shade = (name, printed) =>
    printed ? { "--text": "#000000", "--line": "#bbbbbb" }[name]
            : getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = (printed) => {
    const text = shade("--text", printed), line = shade("--line", printed);
    for (const div of document.querySelectorAll(".plot")) {
      const figure = JSON.parse(document.getElementById(div.dataset.figure).textContent);
      const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, fixedrange: true };
      const layout = {
        ...figure.layout,
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: text, family: getComputedStyle(document.body).fontFamily, size: 13 },
        xaxis: { ...axis, ...figure.layout.xaxis }, yaxis: { ...axis, ...figure.layout.yaxis },
      };
      Plotly.react(div, figure.data, layout, { responsive: true, displayModeBar: false });
    }
  };
  draw(false);
  dark.addEventListener("change", () => draw(false));
  window.addEventListener("beforeprint", () => draw(true));
  window.addEventListener("afterprint", () => draw(false));
})();

"use strict";
// A click on a policy hides or shows it everywhere; the pointer over a chart of lines shows the values there.
(() => {
  for (const button of document.querySelectorAll("button[data-policy]")) {
    button.addEventListener("click", () => {
      const number = button.dataset.policy;
      const isOff = button.getAttribute("aria-pressed") === "true";
      for (const same of document.querySelectorAll(`button[data-policy="${number}"]`)) {
        same.setAttribute("aria-pressed", String(!isOff));
      }
      for (const shape of document.querySelectorAll(`.s${number}`)) shape.classList.toggle("off", isOff);
    });
  }

  const tip = document.getElementById("tip");
  const numbers = (text) => text.split(" ").map(Number);

  const row = (cells, name) => {
    const line = document.createElement("div");
    line.className = name;
    for (const cell of cells) line.appendChild(document.createElement("span")).textContent = cell;
    return line;
  };

  for (const chart of document.querySelectorAll("svg.lines")) {
    const [left, , right] = numbers(chart.dataset.box);
    const [low, high, size] = numbers(chart.dataset.x);
    const guide = chart.querySelector(".guide");
    const lines = [...chart.querySelectorAll(".line")].map((shape) => ({
      shape, at: numbers(shape.dataset.at), y: numbers(shape.dataset.y),
    }));
    const hide = () => { tip.hidden = true; guide.setAttribute("visibility", "hidden"); };
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("pointermove", (event) => {
      const frame = chart.getBoundingClientRect();
      const place = (event.clientX - frame.left) * chart.viewBox.baseVal.width / frame.width;
      if (place < left || place > right) { hide(); return; }
      const value = low + (high - low) * (place - left) / (right - left);
      const found = [];
      let near = value;
      for (const { shape, at, y } of lines) {
        if (shape.classList.contains("off")) continue;
        let best = 0;
        at.forEach((each, index) => { if (Math.abs(each - value) < Math.abs(at[best] - value)) best = index; });
        near = at[best];
        found.push({ colour: shape.classList[1], name: shape.dataset.name, y: y[best] });
      }
      found.sort((a, b) => b.y - a.y);
      const shown = (near / size).toLocaleString("en", { maximumFractionDigits: 2 });
      tip.replaceChildren(row([`${shown} ${chart.dataset.unit}`], "at"));
      for (const { colour, name, y } of found) {
        tip.append(row(["", name, y.toLocaleString("en", { maximumFractionDigits: 2 })], colour));
      }
      tip.hidden = false;
      const x = event.clientX + 16 + tip.offsetWidth > innerWidth ? event.clientX - 16 - tip.offsetWidth
        : event.clientX + 16;
      tip.style.left = `${x}px`;
      tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 8)}px`;
      const guided = left + (right - left) * (near - low) / (high - low);
      guide.setAttribute("x1", guided);
      guide.setAttribute("x2", guided);
      guide.setAttribute("visibility", "visible");
    });
  }
})();

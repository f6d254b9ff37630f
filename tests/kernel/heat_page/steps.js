// What a test does with the page, beside the page's own script.
const flames = () => [...document.querySelectorAll("#flame div")]
  .map((one) => [one.dataset.name, Number(one.dataset.weight)]);
const mouse = (kind, target, [x, y], shiftKey = false) => target.dispatchEvent(
  new MouseEvent(kind, { clientX: x, clientY: y, shiftKey, bubbles: true }));
// The middle of a cell on the screen.
const place = (cell) => {
  const frame = canvas.getBoundingClientRect(), scale = frame.width / canvas.width;
  return [frame.left + scale * (MARGIN + (Math.floor(cell / ROWS) + 0.5) * cellWidth),
    frame.top + scale * (ROWS - 0.5 - cell % ROWS) * cellHeight];
};
const drag = (from, to, shift) => {
  mouse("mousedown", canvas, place(from), shift);
  mouse("mousemove", canvas, place(to), shift);
  mouse("mouseup", window, place(to), shift);
};
const click = (id) => document.getElementById(id).click();
const type = (text) => {
  const field = document.getElementById("search");
  field.value = text;
  field.dispatchEvent(new Event("input"));
};

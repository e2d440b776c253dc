"""The style of the page of an experiment, and the script that sorts its table."""

STYLE = """
:root { color-scheme: light; --ink: #1f2937; --soft: #6b7280; --line: #e5e7eb; --best: #f97316; --accent: #4f46e5;
  --ground: #f6f7fb; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 36px 24px 64px; }
header h1 { margin: 0; font-size: 28px; letter-spacing: -0.02em; }
header p { margin: 4px 0 0; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
section { background: #fff; border: 1px solid var(--line); border-radius: 14px; padding: 22px 24px; margin-top: 20px;
  box-shadow: 0 1px 2px rgb(31 41 55 / 4%); }
h2 { margin: 0 0 12px; font-size: 17px; letter-spacing: -0.01em; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px; margin-top: 24px; }
.card { background: #fff; border: 1px solid var(--line); border-radius: 14px; padding: 14px 18px; }
.card b { display: block; font-size: 24px; letter-spacing: -0.02em; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: 12.5px; }
.card.best { border-color: var(--best); background: #fff7ed; }
.card.failed b { color: #dc2626; }
.best dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 10px 24px; margin: 0; }
.best dt { color: var(--soft); font-size: 12.5px; }
.best dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.best h3 { font-size: 13px; color: var(--soft); font-weight: 600; margin: 16px 0 6px; }
img { display: block; width: 100%; height: auto; margin: 0 auto; }
input { font: inherit; padding: 6px 12px; border: 1px solid var(--line); border-radius: 9px; width: 260px;
  max-width: 100%; margin-bottom: 12px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
th { position: sticky; top: 0; background: #fff; text-align: right; padding: 0; border-bottom: 2px solid var(--line); }
th button { all: unset; cursor: pointer; padding: 7px 12px; font-weight: 600; color: var(--soft); }
th button:hover, th button:focus-visible { color: var(--accent); }
th[aria-sort] button { color: var(--ink); }
th[aria-sort=ascending] button::after { content: " ↑"; }
th[aria-sort=descending] button::after { content: " ↓"; }
td { text-align: right; padding: 6px 12px; border-bottom: 1px solid var(--line); }
td.text, th.text { text-align: left; }
tbody tr:hover td { background: #f9fafb; }
tr.best td { background: #fff7ed; font-weight: 600; }
.mark { display: inline-block; width: 8px; height: 8px; border-radius: 50%; margin-right: 7px; background: #9ca3af; }
.TERMINATED .mark { background: #16a34a; } .ERROR .mark { background: #dc2626; } .RUNNING .mark { background: #0891b2; }
.PAUSED .mark { background: #ca8a04; }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; }
pre { background: #f9fafb; border-radius: 9px; padding: 12px; overflow-x: auto; font-size: 12px; }
@media print { section, .card { break-inside: avoid; } input { display: none; } }
"""

SCRIPT = """
const table = document.querySelector("#trials");
const body = table.tBodies[0];
const heads = [...table.tHead.rows[0].cells];
heads.forEach((head, column) => head.firstChild.addEventListener("click", () => {
  const descending = head.getAttribute("aria-sort") !== "descending";
  heads.forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const numeric = !head.classList.contains("text");
  const key = row => row.cells[column].dataset.value ?? "";
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = numeric ? Number(x) - Number(y) : x.localeCompare(y, undefined, { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows);
}));
document.querySelector("#filter").addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
"""

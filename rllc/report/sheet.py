"""The style sheet of the page: light and dark, screen and paper."""

CSS = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fdfdfc; --soft: #5a5a5a; --rule: #d6d6d2; --link: #0b5c94;
  --head: #f1f1ee; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e3; --paper: #17181a; --soft: #a8a8a4; --rule: #3a3c3f; --link: #7dbdf0; --head: #222427; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 1140px; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
p, li { max-width: 46rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 0.75rem; border-bottom: 1px solid var(--rule); padding-bottom: 0.25rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 0.5rem; }
a { color: var(--link); }
nav ul { padding-left: 1.1rem; margin: 0.5rem 0; columns: 15rem; max-width: 60rem; }
figure { margin: 0 0 1.5rem; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--rule);
  border-radius: 4px; }
.scroll { overflow-x: auto; }
@media screen and (max-width: 860px) { figure img { max-width: none; width: 52rem; } }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 0.4rem; max-width: 56rem; }
.wide { overflow-x: auto; margin: 1rem 0 1.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding-bottom: 0.4rem; white-space: nowrap; }
th, td { padding: 0.2rem 0.7rem 0.2rem 0; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top;
  overflow-wrap: normal; }
thead th { background: var(--head); border-bottom-width: 2px; }
tbody th { font-weight: 600; white-space: nowrap; }
th:first-child { padding-left: 0.5rem; }
pre { overflow-x: auto; padding: 0.75rem; background: var(--head); font-size: 0.8rem; line-height: 1.4; }
@media print {
  :root { --ink: #000; --paper: #fff; --soft: #333; --rule: #bbb; --link: #000; --head: #eee; }
  body { max-width: none; padding: 0; font-size: 11pt; }
  nav { display: none; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  pre { white-space: pre-wrap; }
}
"""

#pragma once

namespace slipstream {

/// Of the doctor's page. Holds no "<" and no "&", so that it needs no escaping.
inline constexpr const char* kDoctorStyle = R"(
:root {
  color-scheme: light dark;
  --page: #ffffff; --card: #f5f6f8; --line: #d8dce1; --ink: #1c2126; --soft: #5a636d;
  --bar: #2f6fb0; --starved: #c75b12; --drained: #9aa5b1; --ceiling: #1c2126;
  --good: #1a7a48; --bad: #b3410e; --unsure: #6a5a00;
  --s0: #2f6fb0; --s1: #5584b8; --s2: #1d4c7f; --on: #ffffff;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #11151a; --card: #1a2027; --line: #343d47; --ink: #e7ebef; --soft: #9ba6b2;
    --bar: #5b9fe0; --starved: #f0904a; --drained: #66717d; --ceiling: #e7ebef;
    --good: #4cc587; --bad: #f58b55; --unsure: #e0c84e;
    --s0: #5b9fe0; --s1: #8cbdec; --s2: #4a86c2; --on: #0b1016;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
  overflow-wrap: anywhere;
}
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1, h2, h3, p, ul, ol, dl, dd { margin: 0; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.2rem; }
h3 { font-size: 1rem; }
.soft, .ci, small { color: var(--soft); }
.soft { font-size: 0.9rem; }
.ci { font-size: 0.85em; font-weight: 400; display: inline-block; }
.num { font-variant-numeric: tabular-nums; }
code, pre { font: 0.88rem/1.45 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; }
.verdict {
  margin-top: 1.2rem; padding: 1.1rem 1.2rem; background: var(--card);
  border-left: 6px solid var(--tone); border-radius: 4px;
}
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .unsure { --tone: var(--unsure); }
.verdict h2 { margin: 0 0 0.3rem; font-size: 1.45rem; line-height: 1.25; }
.verdict .word { color: var(--tone); font-weight: 600; }
.verdict p + p { margin-top: 0.4rem; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: 0.8rem 1.2rem;
  margin-top: 1rem;
}
.figures dt { font-size: 0.85rem; color: var(--soft); }
.figures dd { font-size: 1.5rem; font-weight: 600; line-height: 1.25; }
.figures .ci { display: block; font-size: 0.85rem; }
.warnings { margin-top: 1rem; padding: 0.8rem 1.2rem; border: 1px solid var(--line); border-radius: 4px; }
.warnings h2 { margin: 0; font-size: 1rem; }
.warnings ul { padding-left: 1.2rem; }
svg { display: block; width: 100%; overflow: hidden; }
svg text { fill: var(--soft); font-size: 12px; }
.track { fill: var(--card); }
.bar { fill: var(--bar); } .starved { fill: var(--starved); } .drained { fill: var(--drained); }
.now { fill: var(--drained); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); }
svg .on { fill: var(--on); font-weight: 600; }
svg .beyond { fill: var(--ink); font-size: 15px; }
.whisker { stroke: var(--ink); stroke-width: 1.5; }
.ceiling { stroke: var(--ceiling); stroke-dasharray: 3 3; }
.grid { stroke: var(--line); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; margin: 0.3rem 0 0.6rem; }
.legend span { display: inline-flex; align-items: center; gap: 0.4rem; }
.legend svg { width: 1.4rem; flex: none; }
.legend + table, p + .rows { margin-top: 0.4rem; }
.rows { list-style: none; padding: 0; }
.rows li {
  display: grid; grid-template-columns: 12.5rem minmax(0, 1fr) 14.5rem; gap: 0 1rem; align-items: center;
  padding: 0.3rem 0; border-top: 1px solid var(--line); break-inside: avoid;
}
.rows .name small, .rows .num small { display: block; line-height: 1.3; }
.rows .num b { font-weight: 600; }
.rows .failed { grid-column: 2 / -1; color: var(--bad); font-size: 0.9rem; }
.changes { padding: 0; list-style: none; counter-reset: rank; }
.changes li {
  counter-increment: rank; padding: 0.7rem 0 0.8rem 2.4rem; position: relative;
  border-top: 1px solid var(--line); break-inside: avoid;
}
.changes li::before {
  content: counter(rank); position: absolute; left: 0; top: 0.65rem; width: 1.6rem; height: 1.6rem;
  border-radius: 50%; background: var(--card); text-align: center; font-weight: 600;
  line-height: 1.6rem;
}
.changes svg { max-width: 34rem; margin: 0.3rem 0; }
.badge {
  display: inline-block; padding: 0 0.5rem; border: 1px solid var(--line); border-radius: 1rem;
  font-size: 0.8rem; color: var(--soft);
}
pre {
  margin: 0.4rem 0 0; padding: 0.5rem 0.7rem; background: var(--card); border-radius: 4px;
  white-space: pre-wrap;
}
pre span { display: inline-block; }
table { width: 100%; border-collapse: collapse; margin-top: 0.5rem; font-size: 0.92rem; }
th, td { padding: 0.35rem 0.6rem 0.35rem 0; text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 400; font-size: 0.85rem; vertical-align: bottom; }
td { border-top: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child, .kind { text-align: left; }
.costs td:first-child { width: 13rem; }
.costs td svg { max-width: 11rem; margin-top: 0.15rem; }
th:last-child, td:last-child { padding-right: 0; }
table { overflow-wrap: break-word; }
td:first-child { overflow-wrap: anywhere; }
td small, td .ci { display: block; line-height: 1.3; }
tr { break-inside: avoid; }
.about { display: grid; grid-template-columns: minmax(0, 10rem) minmax(0, 1fr); gap: 0.1rem 1rem; font-size: 0.9rem; }
.about dt { color: var(--soft); }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 0.6rem; }
@media (max-width: 44rem) {
  .rows li { grid-template-columns: minmax(0, 1fr) fit-content(65%); gap: 0.1rem 0.8rem; }
  .rows .plot { grid-column: 1 / -1; grid-row: 2; }
  .rows .num { text-align: right; }
  .rows .failed { grid-column: 1 / -1; }
  .about { grid-template-columns: minmax(0, 6.5rem) minmax(0, 1fr); }
  .changes li { padding-left: 2.1rem; }
  table, tbody, tr, td { display: block; }
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  table { overflow-wrap: anywhere; }
  tr {
    display: grid; grid-template-columns: repeat(auto-fill, minmax(6rem, 1fr)); gap: 0.4rem 0.8rem;
    padding: 0.6rem 0; border-top: 1px solid var(--line);
  }
  td { border: 0; padding: 0; text-align: left; }
  td::before { content: attr(data-label); display: block; color: var(--soft); font-size: 0.8rem; }
  td:first-child { grid-column: 1 / -1; font-weight: 600; }
  td:first-child::before { content: none; }
  .costs td:first-child { width: auto; }
}
@media print {
  html { font-size: 13px; }
  body { font-size: 1rem; }
  .rows li { grid-template-columns: 11rem minmax(0, 1fr) 13.5rem; }
  main { max-width: none; padding: 0; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, .soft, .legend { break-after: avoid; }
  h2 { margin-top: 1.5rem; }
  .rows li { padding: 0.15rem 0; }
  table { font-size: 0.85rem; }
  th, td { padding-right: 0.4rem; }
  .costs td:first-child { width: 9rem; }
}
)";

}  // namespace slipstream

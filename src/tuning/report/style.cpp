// SPDX-License-Identifier: MIT
// The report's style sheet. Colours keep their contrast in light and dark, and shapes tell apart what colours do.
#include "tuning/report/svg.hpp"

namespace tilewright::report {

std::string_view style_sheet() {
  return R"css(
:root{--bg:#fbfbfa;--panel:#fff;--ink:#1b1f24;--muted:#5b6470;--line:#dfe3e8;--grid:#e9ecef;--tuned:#0b5cad;--untuned:#7a838e;
--peer:#b8520a;--memory:#0a7a63;--roof:#3c444d;--good:#0a6b3d;--bad:#b3261e;--chip:#eef2f6}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--panel:#1b1f24;--ink:#e8ebee;--muted:#a1abb6;--line:#323941;--grid:#2a3037;
--tuned:#6db3ff;--untuned:#98a3af;--peer:#ffa862;--memory:#4fd1b0;--roof:#c6cdd5;--good:#63d297;--bad:#ff8a80;--chip:#262c33}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1160px;margin:0 auto;padding:32px 24px 64px}
header h1{margin:0;font-size:28px;line-height:1.2;letter-spacing:-.01em}
header p{margin:6px 0 0;color:var(--muted)}
h2{margin:0 0 12px;font-size:17px}
section{margin-top:24px;padding:20px;background:var(--panel);border:1px solid var(--line);border-radius:10px}
.lead{margin:-8px 0 8px;color:var(--muted);font-size:13.5px}
.cards{display:flex;flex-wrap:wrap;gap:12px;padding:0;background:none;border:0}
.card{flex:1 1 150px;padding:14px 16px;background:var(--panel);border:1px solid var(--line);border-radius:10px}
.card b{display:block;font-size:24px;line-height:1.2;font-weight:650}
.card span{color:var(--muted);font-size:13px}
.device{display:flex;flex-wrap:wrap;gap:24px 48px}
dl{display:grid;grid-template-columns:max-content auto;gap:4px 20px;margin:0;align-content:start}
dt{color:var(--muted)}dd{margin:0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13.5px}
.limits{width:auto;min-width:360px}
th{padding:6px 9px;text-align:left;font-weight:600;color:var(--muted);border-bottom:1px solid var(--line);vertical-align:bottom}
td{padding:6px 9px;border-bottom:1px solid var(--line);vertical-align:top}
th.n,td.n{text-align:right}td.n{white-space:nowrap}
tbody tr:last-child td{border-bottom:0}
.rows tbody tr:not(.recipe) td{border-bottom:0;padding-bottom:0}
.recipe td{padding-top:1px;color:var(--muted)}
.recipe em{font-style:normal;margin-left:6px;padding:0 6px;border-radius:4px;background:var(--chip);font-size:12px}
code{font:12px/1.45 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.layer{white-space:nowrap}
.strong{font-weight:650}.good{color:var(--good)}.bad{color:var(--bad)}
.badge{display:inline-block;min-width:22px;padding:0 5px;border-radius:11px;background:var(--chip);text-align:center;font-weight:600}
.meter{display:inline-block;width:56px;height:7px;margin-right:8px;border-radius:4px;background:var(--chip);overflow:hidden;vertical-align:1px}
.meter i{display:block;height:100%;background:var(--tuned)}
.outcome{padding:1px 8px;border-radius:4px;background:var(--chip);color:var(--bad);white-space:nowrap}
.rejections p{margin:2px 0 0;white-space:pre-wrap;overflow-wrap:anywhere}
details{margin-top:2px}summary{cursor:pointer;font-size:12.5px}
.attempts{width:auto;margin:4px 0 6px;font-size:12.5px}.attempts td{padding:2px 12px 2px 0;border:0}.attempts p{margin:0}
ul{margin:0;padding-left:20px}
.picture{display:block;width:100%;height:auto;font-size:12.5px}
svg text{fill:var(--ink)}
svg .tick{fill:var(--muted);font-size:11.5px}svg .axis{fill:var(--muted)}svg .value{fill:var(--muted);font-size:11.5px}
svg .grid{stroke:var(--grid);stroke-width:1}svg .axisline{stroke:var(--line);stroke-width:1.5}
svg .limit{stroke:var(--bad);stroke-width:1;stroke-dasharray:3 3}
svg .roof{stroke:var(--roof);stroke-width:1.6}svg .roofname{fill:var(--roof);font-weight:600}
svg .memory{stroke:var(--memory);stroke-width:2}svg .memoryname{fill:var(--memory);font-weight:600}
svg .tuned{fill:var(--tuned);stroke:var(--panel);stroke-width:1.5}
svg .untuned{fill:var(--panel);stroke:var(--untuned);stroke-width:1.8}
svg .peer{fill:var(--panel);stroke:var(--peer);stroke-width:1.8}
svg .tie{stroke:var(--untuned);stroke-width:1;opacity:.55}
svg .leader{stroke:var(--muted);stroke-width:.8}
svg .number{font-weight:650;font-size:12px;paint-order:stroke;stroke:var(--panel);stroke-width:3px;stroke-linejoin:round}
svg .gain,svg .calm{fill:var(--tuned)}svg .peerbar{fill:var(--peer)}svg .noisy{fill:var(--bad)}svg .calm{opacity:.55}svg .interval{stroke:var(--ink);stroke-width:1.4}
@media print{section{break-inside:avoid}}
)css";
}

}  // namespace tilewright::report

// Tables under the figures, where the scenario has parts: by class of requests, by pool of replicas.

import { byId, h, say, show } from "./dom.js";
import { counted, percent, significant, time } from "./format.js";
import { classesOf, poolsOf } from "./reading.js";

const CLASSES = [
  ["served", (one) => `${significant(one.perSecond)}/s`], ["lost", (one) => (one.lost ? counted(one.lost, "request") : "–")],
  ["TTFT p50", (one) => time(one.ttft50)], ["TTFT p99", (one) => time(one.ttft99)], ["TPOT p99", (one) => time(one.tpot99)], ["within SLO", (one) => percent(one.good)],
];
const POOLS = [
  ["replicas", (one) => String(one.replicas)], ["running", (one) => significant(one.running)], ["waiting", (one) => significant(one.waiting)], ["busy", (one) => percent(one.busy)],
  ["KV at most", (one) => percent(one.kv)], ["MFU", (one) => percent(one.mfu)], ["HBM", (one) => percent(one.bandwidth)],
];

/** Shows the tables that there is something for. */
export function showTables(result) {
  fill(byId("classes"), "class", CLASSES, classesOf(result));
  fill(byId("pools"), "pool", POOLS, poolsOf(result));
  show(byId("tables"), !byId("classes").hidden || !byId("pools").hidden);
}

function fill(table, what, columns, rows) {
  show(table, rows.length > 1);
  if (rows.length < 2) return;
  const body = table.tBodies[0];
  const names = rows.map((row) => row.name).join("\n");
  if (table.dataset.names !== names) {
    table.dataset.names = names;
    table.tHead.replaceChildren(h("tr", {}, h("th", { scope: "col" }, what), columns.map(([name]) => h("th", { scope: "col" }, name))));
    body.replaceChildren(...rows.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), columns.map(() => h("td")))));
  }
  rows.forEach((row, i) => columns.forEach(([, word], j) => say(body.rows[i].cells[j + 1], word(row))));
}

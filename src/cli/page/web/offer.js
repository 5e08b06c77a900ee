// The SLO's controls once more, at the place of the knee, where there is none to search for without them.

import { build } from "./controls.js";
import { byId, say, show } from "./dom.js";
import { rhoByVerdict } from "./reading.js";
import { controlOf } from "./settings.js";

const FLAGS = ["goodput:ttft", "goodput:tpot"];
const RHO = {
  "< 1": "Without one it is known that ρ < 1: the backlog does not grow at this load.",
  "≈ 1": "Without one it is known that ρ is about 1: whether the backlog grows at this load cannot be told from a run so long.",
  "> 1": "Without one it is known that ρ > 1: the backlog grows at this load.",
};

/** Builds the place; `changed(flag, text)` is told of what the user sets. Returns {show(groups, set, isNeeded, result)}. */
export function buildOffer(changed) {
  const place = byId("offer");
  const controls = new Map();
  let isNeeded = false;
  // Who sets one limit by keyboard can go on to the other: it goes when nobody is in it.
  const settle = () => {
    show(byId("offer-said"), isNeeded);
    show(byId("offer-rho"), isNeeded);
    show(byId("offer-taken"), !isNeeded);
    show(place, (isNeeded || (!place.hidden && place.contains(document.activeElement))) && controls.size > 0);
  };
  place.addEventListener("focusout", () => setTimeout(settle));
  return {
    show: (groups, set, isNowNeeded, result) => {
      isNeeded = isNowNeeded;
      for (const flag of FLAGS) {
        const control = controlOf(groups, flag);
        if (!control) continue;
        if (!controls.has(flag)) {
          controls.set(flag, build(control, (text) => changed(flag, text), "offer"));
          byId("offer-controls").append(controls.get(flag).element);
        }
        controls.get(flag).put(control, set.get(flag) ?? null);
      }
      say(byId("offer-rho"), RHO[rhoByVerdict(result)] ?? "");
      settle();
    },
  };
}

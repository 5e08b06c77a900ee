// "Predict first": answers stay hidden until the user has written down a number for the figure that is asked for.

import { byId, h, say, show } from "./dom.js";
import { interval, significant } from "./format.js";
import { judged, nextQuestion } from "./questions.js";

/** Builds the card. `setting()` names the setting of the controls in words. */
export function buildPredict(setting) {
  const at = { isOn: false, turn: 0, asked: null, isOpen: false, isHinted: false, answer: null, curve: null, scores: [] };
  const [toggle, card, form, field] = [byId("predict"), byId("predict-card"), byId("predict-form"), byId("predict-field")];

  const veil = () => {
    const isHidden = at.isOn && !at.isOpen;
    document.body.classList.toggle("veiled", isHidden);
    byId("answers").inert = isHidden;
    show(card, at.isOn);
  };
  const pose = () => {
    Object.assign(at, { isOpen: false, isHinted: false });
    say(byId("predict-fault"), "");
    say(byId("predict-hint-said"), "");
    byId("predict-hint").disabled = false;
    at.asked = at.answer ? nextQuestion(at.turn, at.answer.result, at.curve) : null;
    const question = at.asked?.question;
    say(byId("predict-ask"), question?.ask ?? "waiting for the simulation …");
    say(byId("predict-unit"), question ? question.unitOf?.(at.curve) ?? question.unit : "");
    say(byId("predict-setting"), setting());
    field.value = "";
    show(byId("predict-result"), false);
    show(form, true);
    veil();
  };
  const reveal = () => {
    const text = field.value.trim().replace(/,/g, "");
    const predicted = Number(text);
    const isNumber = text !== "" && Number.isFinite(predicted);
    say(byId("predict-fault"), isNumber ? "" : "a number is needed");
    if (!isNumber || !at.asked) return;
    const { question, turn } = at.asked;
    const simulated = question.answer(at.answer.result, at.curve);
    if (!simulated) {
      say(byId("predict-fault"), "the simulation is still under way");
      return;
    }
    at.isOpen = true;
    at.turn = turn + 1;
    const unit = question.unitOf?.(at.curve) ?? question.unit;
    const { text: error, words } = judged(predicted, simulated);
    at.scores.unshift({ name: question.name, setting: setting(), predicted, simulated: simulated.value, unit, error, words: at.isHinted ? `${words}, with a hint` : words });
    say(byId("predict-said"), `${question.name}: you said ${significant(predicted)}${unit && ` ${unit}`}, simulated ${significant(simulated.value)}${unit && ` ${unit}`}`
      + `${simulated.low && simulated.high ? `, 95 % ${interval(simulated.low, simulated.high)}` : ""}: ${error}, ${words}`);
    say(byId("predict-formula"), question.formula?.(at.answer.result, at.curve) ?? "");
    show(form, false);
    show(byId("predict-result"), true);
    showScores(at.scores);
    veil();
    byId("predict-next").focus();
  };

  toggle.addEventListener("click", () => {
    at.isOn = !at.isOn;
    toggle.setAttribute("aria-pressed", String(at.isOn));
    // What was spoken of the last answer would tell it.
    byId("live").textContent = "";
    if (at.isOn) pose();
    veil();
    if (at.isOn) field.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    reveal();
  });
  byId("predict-hint").addEventListener("click", () => {
    if (!at.asked || !at.answer) return;
    at.isHinted = true;
    byId("predict-hint").disabled = true;
    say(byId("predict-hint-said"), `given: ${at.asked.question.hint(at.answer.result, at.curve)}`);
    field.focus();
  });
  byId("predict-next").addEventListener("click", () => { pose(); field.focus(); });
  byId("predict-skip").addEventListener("click", () => { at.turn = (at.asked?.turn ?? at.turn) + 1; pose(); field.focus(); });

  return {
    /** The controls moved: what is asked next is asked of the new setting. */
    moved: () => {
      Object.assign(at, { answer: null, curve: null });
      if (at.isOn) pose();
    },
    /** New answers came. A question that waits for them is asked now; one that is asked stays. */
    heard: (answer, curve) => {
      Object.assign(at, { answer, curve });
      if (at.isOn && !at.isOpen && !at.asked) pose();
    },
    isHiding: () => at.isOn && !at.isOpen,
  };
}

function showScores(scores) {
  byId("scores").replaceChildren(...scores.map((score) => h("tr", {},
    h("td", {}, score.name), h("td", { class: "setting" }, score.setting),
    h("td", {}, `${significant(score.predicted)} ${score.unit}`), h("td", {}, `${significant(score.simulated)} ${score.unit}`),
    h("td", {}, score.error), h("td", {}, score.words))));
  say(byId("scores-count"), `predictions so far: ${scores.length}`);
  show(byId("scores-fold"), scores.length > 0);
}

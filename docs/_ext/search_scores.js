// A page whose title begins with the query comes before objects, a guide before its reference.
// The part of the documentation follows the title, since pages of two parts may share a title.
const parts = [
  ["how-to/", "how-to", 3],
  ["reference/", "reference", 2],
  ["discussions/", "discussion", 1],
];

var Scorer = {
  score: (result) => {
    const [page, title, , description, score] = result;
    if (description) return score;
    const query = new URLSearchParams(location.search).get("q").trim().toLowerCase();
    const begins = title.toLowerCase().startsWith(query) ? 12 : 0;
    const [, part, bonus] = parts.find(([folder]) => page.startsWith(folder)) || ["", "", 0];
    if (part) result[1] = `${title} (${part})`;
    return score + bonus + begins;
  },
  // Sphinx's own scores, which this object replaces:
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

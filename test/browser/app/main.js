// Shows a word. Another word takes its place without the page being loaded anew: `born` stays.
import { word } from "./word.js";

const show = (text) => (document.getElementById("word").textContent = text);

window.born ??= Math.random();
show(word);
import.meta.hot.accept("./word.js", (fresh) => show(fresh.word));

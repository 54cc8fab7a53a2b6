// @ts-check
// The theme that was chosen, before anything is painted.
const kept = localStorage.getItem("bai-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;

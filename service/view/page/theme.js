// Colours: as the system has them, or as chosen here.

const CHOICES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
const WORDS = { auto: "as the system", light: "light", dark: "dark" };

export function startTheme(button) {
  let choice = localStorage.getItem("theme") ?? "auto";
  function show() {
    document.documentElement.dataset.theme = choice;
    button.textContent = SIGNS[choice];
    button.setAttribute("aria-label", `Colours: ${WORDS[choice]}`);
    button.title = `Colours: ${WORDS[choice]}`;
  }
  button.addEventListener("click", () => {
    choice = CHOICES[(CHOICES.indexOf(choice) + 1) % CHOICES.length];
    localStorage.setItem("theme", choice);
    show();
  });
  show();
}

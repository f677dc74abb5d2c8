// Fetches this very page every two seconds and puts in the sections that changed; focus and unfolded parts stay.
(() => {
  const reachable = "a[href], [tabindex], summary";
  const renew = (old, fresh) => {
    if (old.innerHTML === fresh.innerHTML) return;
    const place = [...old.querySelectorAll(reachable)].indexOf(document.activeElement);
    const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    old.replaceChildren(...fresh.childNodes);
    old.querySelectorAll(".scroll").forEach((one, k) => { one.scrollLeft = scrolled[k] || 0; });
    if (place >= 0) old.querySelectorAll(reachable)[place]?.focus({ preventScroll: true });
  };
  const look = async () => {
    if (document.hidden) return;
    const told = document.getElementById("live");
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const fresh of page.querySelectorAll("main > section, #live")) {
        const old = document.getElementById(fresh.id);
        if (old) renew(old, fresh);
      }
    } catch {
      const words = "No answer from colonnade ui: this page shows the last state it knew.";
      if (told.textContent !== words) told.textContent = words;
    }
  };
  setInterval(look, 2000);
  document.addEventListener("visibilitychange", look);
})();

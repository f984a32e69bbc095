"""The console's page in Chromium: a click on "New terminal" to the first prompt on the screen."""

import importlib.util
import shutil
from typing import TYPE_CHECKING

from benchmarks.figures import Row, Target, row
from benchmarks.measuring import Bench
from benchmarks.places import Missing
from benchmarks.webterminal import serving
from hermetic.resident.lazy import Lazy

if TYPE_CHECKING:
    from playwright import async_api as playwright

    from hermetic.serve import access, static_files, tokens
else:
    playwright = Lazy("playwright.async_api")
    access, static_files, tokens = (
        Lazy("hermetic.serve.access"),
        Lazy("hermetic.serve.static_files"),
        Lazy("hermetic.serve.tokens"),
    )

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-crash-reporter",
    "--no-zygote",
)
MOST_MILLISECONDS = 300.0
CLICK = """() => new Promise(resolve => {
    const started = performance.now();
    const look = () => {
        const shown = document.querySelector(".pane .xterm-rows")?.innerText ?? "";
        if (/[$#]\\s*$/.test(shown)) resolve(performance.now() - started);
        else requestAnimationFrame(look);
    };
    document.querySelector(".empty .new-terminal button").click();
    look();
})"""


async def prompt_time(page: "playwright.Page", environment: str) -> float:
    """Milliseconds from the click to the prompt of a new terminal, which is closed again."""
    await page.evaluate("path => { location.hash = path }", f"#/terminal/{environment}")
    await page.locator(".empty .new-terminal button").wait_for()
    # the terminal's code is there before a person clicks
    await page.wait_for_load_state("networkidle")
    taken: float = await page.evaluate(CLICK)
    await page.get_by_role("button", name="Close the terminal").click()
    await page.locator(".empty .new-terminal button").wait_for()
    return taken


async def prompt(bench: Bench) -> list[Row]:
    """From the click to the first prompt, in a browser."""
    path = shutil.which("chromium")
    if path is None or importlib.util.find_spec("playwright") is None:
        raise Missing("no chromium, or the package playwright is not installed")
    async with serving() as server:
        if not static_files.is_built():
            raise Missing("the page is not built; run scripts/build-console")
        async with playwright.async_playwright() as driver:
            chromium = await driver.chromium.launch(executable_path=path, args=list(ARGUMENTS))
            try:
                page = await chromium.new_page()
                await page.goto(
                    access.start_url(tokens.TokenStore.of_this_user(), f"{server.url}/")
                )
                times = [
                    await prompt_time(page, server.environment.id)
                    for _ in range(bench.times(20, 3))
                ]
            finally:
                await chromium.close()
    return [
        row(
            "console.prompt",
            'console page: click on "New terminal" to the first prompt, Chromium',
            "ms",
            times,
            target=Target(of="median", most=MOST_MILLISECONDS),
        )
    ]

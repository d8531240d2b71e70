// Somebody with a browser, who logs in and agrees.
import { chromium } from "playwright-core";

// Only a hang takes as long, in milliseconds.
export const PATIENCE = 60_000;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

export class Person {
  static async start() {
    const person = new Person();
    const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
    person.browser = await chromium.launch({ executablePath, args: FLAGS });
    return person;
  }

  // Logs in where this link leads; the words of the page that it ends at.
  async logIn(link) {
    const context = await this.browser.newContext();
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    try {
      await page.goto(link);
      await page.fill("input[name=login]", "somebody");
      await page.fill("input[name=password]", "a password");
      await page.click("button[type=submit]");
      await page.waitForSelector("text=Authorize");
      await page.click("button[type=submit]");
      await page.waitForURL(/callback\?/);
      return await page.textContent("body");
    } finally {
      await context.close();
    }
  }

  async leave() {
    await this.browser.close();
  }
}

/**
 * Replaces `config.js` of pi-coding-agent: the locations of files. pi's module reads the `package.json` above itself when it is
 * loaded; a bundle has no location, so the user's folder is a fact of the realm, and pi's bundled files are searched in
 * `PI_PACKAGE_DIR`, or in a folder that need not exist.
 */

import { facts } from "pi:engine";
import { join } from "node:path";
import { process } from "node:process";
import { version } from "pi:pi/profile";

export const PACKAGE_NAME = "@earendil-works/pi-coding-agent";
export const APP_NAME = "pi";
export const APP_TITLE = "π";
/** Name of the folder in a project that contains settings. */
export const CONFIG_DIR_NAME = ".pi";
/** The version of pi whose API this host reproduces. */
export const VERSION = version;
export const ENV_AGENT_DIR = "PI_CODING_AGENT_DIR";
export const ENV_SESSION_DIR = "PI_CODING_AGENT_SESSION_DIR";
export const isBunBinary = false;
export const isBunRuntime = false;
/** As in pi's single-file distribution, pi's modules have no folder, so no files are searched next to them. */
export const isBundledNode = true;

/** The user's folder of pi. */
export const getAgentDir = (): string => facts.agentDir ?? join(facts.homedir, CONFIG_DIR_NAME, "agent");

const inAgentDir = (name: string) => (): string => join(getAgentDir(), name);
export const getCustomThemesDir = inAgentDir("themes");
export const getModelsPath = inAgentDir("models.json");
export const getAuthPath = inAgentDir("auth.json");
export const getSettingsPath = inAgentDir("settings.json");
export const getToolsDir = inAgentDir("tools");
export const getBinDir = inAgentDir("bin");
export const getPromptsDir = inAgentDir("prompts");
export const getSessionsDir = inAgentDir("sessions");
export const getDebugLogPath = inAgentDir("pi-debug.log");

/** The folder that contains pi itself. */
export const getPackageDir = (): string => process.env.PI_PACKAGE_DIR || join(getAgentDir(), "pi");

const inPackageDir = (...names: string[]) => (): string => join(getPackageDir(), ...names);
export const getPackageJsonPath = inPackageDir("package.json");
export const getReadmePath = inPackageDir("README.md");
export const getDocsPath = inPackageDir("docs");
export const getExamplesPath = inPackageDir("examples");
export const getChangelogPath = inPackageDir("CHANGELOG.md");
export const getThemesDir = inPackageDir("dist", "modes", "interactive", "theme");
export const getExportTemplateDir = inPackageDir("dist", "core", "export-html");
export const getInteractiveAssetsDir = inPackageDir("dist", "modes", "interactive", "assets");
export const getBundledInteractiveAssetPath = (name: string): string => join(getInteractiveAssetsDir(), name);

export function expandTildePath(path: string): string {
  return path === "~" || path.startsWith("~/") ? join(facts.homedir, path.slice(1)) : path;
}

/** Returns `unknown`: an extension cannot update pi. */
export const detectInstallMethod = (): string => "unknown";
export const getSelfUpdateCommand = (): undefined => undefined;
export const getSelfUpdateUnavailableInstruction = (): string => "Update PiJS as it was installed.";

export const getShareViewerUrl = (id: string): string => `https://pi.dev/session/#${id}`;

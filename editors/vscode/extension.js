// Starts `heddle lsp` for the workspace and hands the conversation to VS Code's own client.
const { workspace, window } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const command = workspace.getConfiguration("heddle").get("command");
  client = new LanguageClient(
    "heddle",
    "Heddle",
    { command, args: ["lsp", "--stdio"] },
    {
      documentSelector: [{ language: "heddle" }],
      synchronize: { fileEvents: workspace.createFileSystemWatcher("**/{config.json,*.heddle}") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(`heddle: \`${command} lsp\` does not start (${error.message}); set heddle.command`);
  }
};

exports.deactivate = () => client?.stop();

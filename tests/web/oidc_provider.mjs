// A provider of identities on this machine, with a page that signs in whoever it is told: `node oidc_provider.mjs PORT CALLBACK`.
import Provider from "oidc-provider";

const [port, callback] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{
    client_id: "trainmark", client_secret: "the-secret-of-the-client", redirect_uris: [callback],
    response_types: ["code"], grant_types: ["authorization_code"],
  }],
  claims: { openid: ["sub"], profile: ["preferred_username"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  features: { devInteractions: { enabled: true } },
  findAccount: async (_context, id) => ({
    accountId: id, claims: async () => ({ sub: id, preferred_username: id.toLowerCase() }),
  }),
  cookies: { keys: ["a key of this test alone"] },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));

"""Data that looks like secrets and is none: a model must get it unchanged."""

_PYTHON = """
def connect(user: str, password: str, token: str | None = None) -> Client:
    password = password or os.environ["DB_PASSWORD"]
    token = token or get_token(user)
    api_key = settings.api_key2
    secret_key = config.get("secret_key")
    if password == "":
        raise ValueError("password must not be empty")
    return Client(user=user, password=password, token=token, secret=self._secret, key=f"user:{user}")
"""
_TYPESCRIPT = """
interface Login { password: string; accessToken?: string; apiKey: string | undefined }
const token = await getToken1(req);
const secret = process.env.APP_SECRET1;
const { password, token: authToken } = body;
headers: { Authorization: `Bearer ${token}`, "X-Api-Key": apiKey },
this.password = password; export const TOKEN_TYPE = "bearer";
"""
_GO = """
type Config struct {
	Password string `json:"password"`
	APIKey   string `yaml:"api_key" env:"API_KEY"`
}
token := os.Getenv("GITHUB_TOKEN")
req.Header.Set("Authorization", "Bearer "+token)
"""
_RUST = 'let password = rpassword::prompt_password("Password: ")?;\nlet token: String = env::var("TOKEN")?;'
_JAVA = 'private final String password; String token = jwt.sign(user); @Value("${app.secret}") String secret;'
_SHELL = """
PASSWORD=${PASSWORD:?}
TOKEN=$(cat /run/secrets/token)
read -rs password
curl -H "Authorization: Bearer $TOKEN" -u "$USER:$PASSWORD" "https://$HOST/x?token=$TOKEN"
mysql --password "$PASSWORD" --user app
export API_KEY="$(pass show api)"
"""
_SQL = "CREATE TABLE users (id uuid, password VARCHAR(255) NOT NULL, api_key CHAR(64), token TEXT);"
_SCHEMA = '{"properties": {"password": {"type": "string", "minLength": 12}, "token": {"$ref": "#/defs/Token1"}}}'
_ACTIONS = "env:\n  TOKEN: ${{ secrets.GITHUB_TOKEN }}\n  API_KEY: ${{ secrets.API_KEY_2 }}\n"
_COMPOSE = "environment:\n  POSTGRES_PASSWORD: postgres\n  DATABASE_URL: postgres://postgres:postgres@db:5432/app\n"
_TERRAFORM = "password = var.db_password1\n  token  = (sensitive value)\nsecret_id = aws_secretsmanager_secret.db1.id\n"
_HELP = "  --password PASSWORD   the password to use\n  --token TOKEN         an access token (default: $TOKEN)\n"
_ENV_EXAMPLE = "OPENAI_API_KEY=sk-your-key-here\nDB_PASSWORD=changeme\nSECRET_KEY=<generate one>\nTOKEN=xxxxxxxxxxxxxxxx\n"
_PEM_CODE = 'if text.startswith("-----BEGIN RSA PRIVATE KEY-----"):\n    load_key(text)\n'
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{b64}\n{b64}\n{b40}==\n-----END CERTIFICATE-----"
_PUBLIC = "-----BEGIN PUBLIC KEY-----\n{b64}\n{b64}\n{b40}==\n-----END PUBLIC KEY-----"
_LOG = """
INFO token count: 4096, max_tokens=128000, tokens: 17
WARN invalid token: expected string
DEBUG session_id={h32} request_id={h8}-{h4}-{h4}-{h4}-{h12}
ERROR password authentication failed for user "app"
INFO Authorization: Bearer authentication is required
"""
_TEST_RESULTS = """
PASS: check-a1b2.sh
PASS: testLogin2x
pass: testV2Login
fail: testV3Login
pass: 12
ok 1 - user: bob, second pass: step2bX
# PASS:  12
--- PASS: TestX2y (0.00s)
"""
_BLOCKS = """
password: |
  The password must have 12 characters
  and one digit: see page2b.
secret: >-
  /run/secrets/db1
token:
  type: string2b
  pattern: a1b2c3d4
api_key:
  - name2key
password:
next_1: 2
secret:
    $ref1
token: |
description: a1b2c3d4e5
- password: |
  user: bob1234x
"""
_POD = """
env:
- name: DB_PASSWORD
  valueFrom:
    secretKeyRef:
      name: db-credentials-1
      key: password
- name: TOKEN_PATH
  value: tokens-2b
- name: API_KEY
  value: $(KEY_2)
"""
_CLOUD_FORMATION = "MasterUserPassword: !Ref DbLogin1\nToken: !GetAtt Stack1.Out2\n"
_QUESTIONS = """
Password:
  Welcome to host2b, bob
if password:
    step2b
Enter passphrase for key:
user: bob
pass: -
pass: ok
second pass: run2b
"""
_MINIFIED = (
    'var e=t.token,n=r.password||"",o=function(t){return t.secret=e,t};a.key="{A10}";b.sort_key=c1;'
)

BAIT: tuple[tuple[str, str], ...] = (
    ("hashes", "{h32}  image.iso"),
    ("hashes", "{h40}"),
    ("hashes", "sha256:{h64}"),
    ("hashes", "sha512-{b86}=="),
    ("hashes", "md5({h8}) = {h32}"),
    ("hashes", "$2b$12$saltsaltsaltsaltsaltsu{A31}"),
    ("hashes", 'ETag: "{h32}"'),
    ("ids", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("ids", "pod/web-{L9}-{L5} 1/1 Running"),
    ("ids", "i-{h17} vol-{h17} arn:aws:iam::{d12}:role/app"),
    ("ids", "trace={h32} span={h16} AC{h32}"),
    ("ids", "{L26}.{L12}.example.com"),
    ("ids", "nextToken: {A40} pageToken={A30}1"),
    ("git", "commit {h40}\nAuthor: A <a@example.com>\n\n    Fix the token check\n"),
    ("git", "index {h7}..{h7} 100644\n--- a/x.py\n+++ b/x.py"),
    ("git", "   {h7}..{h7}  main -> main"),
    ("git", "{h40}\trefs/heads/main"),
    ("base64", "data:image/png;base64,iVBORw0KGgo{b400}="),
    ("base64", "{b76}\n{b76}\n{b76}\n"),
    ("base64", "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjoz{A200}"),
    ("base64", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} me@host"),
    ("base64", "256 SHA256:{b43} me@host (ED25519)"),
    ("base64", _CERTIFICATE),
    ("base64", _PUBLIC),
    (
        "lock files",
        '"integrity": "sha512-{b86}==",\n"resolved": "https://packages.example/x/-/x-1.2.3.tgz"',
    ),
    ("lock files", '{file = "x-1.0.tar.gz", hash = "sha256:{h64}"},'),
    ("lock files", 'name = "tokenizers"\nversion = "0.1"\nchecksum = "{h64}"'),
    ("lock files", "github.com/a/b v1.2.3 h1:{b43}="),
    ("lock files", "    --hash=sha256:{h64} \\"),
    ("source code", _PYTHON),
    ("source code", _TYPESCRIPT),
    ("source code", _GO),
    ("source code", _RUST),
    ("source code", _JAVA),
    ("source code", _SHELL),
    ("source code", _SQL),
    ("source code", _PEM_CODE),
    ("source code", _MINIFIED),
    (
        "source code",
        'KEYWORDS = {"sk-": 1, "ghp_": 2, "AKIA": 3, "eyJ": 4}; token_re = re.compile(r"ghp_[A-Za-z0-9]{36}")',
    ),
    ("settings", _SCHEMA),
    ("settings", _ACTIONS),
    ("settings", _COMPOSE),
    ("settings", _TERRAFORM),
    ("settings", _ENV_EXAMPLE),
    (
        "settings",
        "password_file = /run/secrets/db1\ntoken_type: bearer2\nsecret_name: db-credentials-1\nkey_id: k1",
    ),
    ("settings", "cache_key: v1-{h32}\nprimary_key: user_id2\npublic_key: {h64}"),
    ("documentation", _HELP),
    ("documentation", "Set `Authorization: Bearer YOUR_TOKEN` or `X-Api-Key: <your-api-key>`."),
    (
        "documentation",
        "export AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    (
        "documentation",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, sk-1234567890abcdef1234567890abcdef, sk-ant-...",
    ),
    (
        "documentation",
        "`postgres://user:password@localhost/db`, `https://user:pass@host`, `redis://:secret@localhost`",
    ),
    (
        "documentation",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0.{u43}",
    ),
    (
        "documentation",
        "A file with -----BEGIN RSA PRIVATE KEY----- as its first line and base64 below it stays here",
    ),
    ("documentation", "The password must have 12 characters. Token: see below. Secret: none."),
    ("output of tools", _LOG),
    (
        "output of tools",
        "Successfully installed tokenizers-0.15.2 keyring-24.3.1 python-jose-3.3.0",
    ),
    ("output of tools", "-rw-r--r-- 1 root root 1679 Jan 12 10:01 server-{h8}.key"),
    ("output of tools", "added 312 packages in 7s (token: not set)"),
    ("output of tools", "+ token=$(get_token)\n+ password=''"),
    ("output of tools", "  PID TTY      TIME CMD\n {d5} pts/0 00:00:01 ssh-agent"),
    ("output of tools", "phone +1 (415) 555-01{d2}, card ending {d4}, order {d12}"),
    ("output of tools", "https://x.example/?key=name&sort=token&page=2&id={d18}"),
    ("output of tools", "tests/test_login.py::test_wrong_password[token-1] PASSED"),
    ("output of tools", "src/a.py:5432:5:E501:line too long\nb.c:12:3:warning:unused1"),
    (
        "output of tools",
        "first_pass: step2b\nbypass=route66x\ntests_pass: 120a45\ncompass_pass=north1",
    ),
    (
        "output of tools",
        "Set-Cookie: theme=dark; Path=/; Expires=Thu, 01-Jan-2026\nCookie: lang=en-US; consent=accepted",
    ),
    (
        "output of tools",
        'mysql -P 3306 -p app\nredis-cli -a $REDIS_PASS ping\nsshpass -p "$PASS" ssh h\nmysql -proot',
    ),
    (
        "output of tools",
        "00000000: {h4} {h4} {h4} {h4} {h4} {h4} {h4} {h4}  ................\n00000010: {h4} {h4}",
    ),
    ("output of tools", "{h2}:{h2}:{h2}:{h2}:{h2}:{h2} dev eth0"),
    (
        "documentation",
        "The machine learning password policy; a default password for new users; machine x password y",
    ),
    (
        "settings",
        "<token>string</token><password></password><secret>${app.secret}</secret><tokenType>bearer</tokenType>",
    ),
    (
        "settings",
        "define('DB_PASSWORD', getenv('DB_PASSWORD')); define('SALT_ROUNDS', 12); define('WP_DEBUG_KEY', true);",
    ),
    (
        "settings",
        "define('AUTH_KEY', 'put your unique phrase here'); define('LOGIN_KEY', 'a long sentence for people to read');",
    ),
    (
        "settings",
        '<property name="password" value="${db.password}"/><add key="Token" value="none"/><i name="key" value="1"/>',
    ),
    (
        "settings",
        "# requirepass foobared\nrequirepass $REDIS_PASSWORD\nkey_mgmt=WPA-PSK\nCREATE USER a IDENTIFIED BY '$X'",
    ),
    (
        "output of tools",
        "7z x -pass x.7z\nzip -P $P x.zip\nsqlplus /nolog @a1.sql\necho $PASS | sudo -S ls\necho a1b2c3d | sudo tee x",
    ),
    (
        "documentation",
        "the default login page asks for a password; by default login is off, password 1 is the first",
    ),
    ("output of tools", _TEST_RESULTS),
    ("settings", _BLOCKS),
    ("settings", _POD),
    ("settings", _CLOUD_FORMATION),
    ("output of tools", _QUESTIONS),
    ("hashes", "{h64}\n{h64}\n{h64}\n{h64}\n"),
    ("base64", "{b64}\n{b64}\n{b64}\n{b40}==\n-----END CERTIFICATE-----"),
    ("settings", '{"auth": "required", "auth": "aHR0cHM6L", "auth": {"type": "basic"}}'),
)

# Literals that are right where they stand: a test's password belongs to the test.
CODE_BAIT: tuple[tuple[str, str], ...] = (
    ("source code as such", 'PASSWORD = "{A10}9x"\nTOKEN = "{h32}"'),
    ("source code as such", "const apiKey = '{A24}1';"),
    ("source code as such", '{"password": "{A9}7z", "secret": "{h24}"}'),
    ("source code as such", 'assert login("app", password="{A8}4b").token == "{A20}2"'),
    ("source code as such", "api_key: {h32}"),
    ("source code as such", "env DB_PASSWORD={A12}3 make test"),
)

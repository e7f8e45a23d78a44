"""What scripts that try gpustall from outside of a training print of each check."""

failed = 0


def check(what, so, *shown):
    global failed
    print("%s  %s" % ("ok    " if so else "FAILED", what), flush=True)
    if not so:
        failed += 1
        for text in shown:
            print(text)

def show(run, args):
    pass

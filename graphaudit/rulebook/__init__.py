"""Loads the rules and answers: does this target take this node?"""
